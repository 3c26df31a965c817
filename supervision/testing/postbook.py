"""Postbook: what became of each message of one mailbox, by number.

Theory. Counts that agree can hide a message that was handled twice while another was lost, and say nothing of order; and what users
send may be equal, or the same object again. So in a simulation a mailbox is of a class that numbers what comes into its queue, by
place in the queue and not by looking at it. It is the same mailbox with the same code: what is put in and taken out goes through a
queue that keeps the numbers beside it, and what is counted ends the number that was taken out last. Elsewhere none of this exists.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from actors.letters import NOTHING, Letter, Tick
from actors.mailbox import Mailbox

__all__ = ["Postbook", "witness"]


class Postbook:
    """The record of one mailbox.

    Attributes:
        path: whose it is.
        faults: what went wrong with single messages.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.faults: list[str] = []
        self.settling = False
        """True while it is decided what becomes of what a run had in hand at its end."""
        self.line: dict[object, object] = {}
        """Who waits for room, in the order of coming, and with what."""
        self._came = 0
        self._loose: list[tuple[int, object]] = []
        """Taken out of the queue, not in hand, and not ended: empty whenever a task waits."""
        self._hand: tuple[int, object] | None = None

    def lost(self) -> list[str]:
        """What was taken out, and nothing became of it."""
        return [f"{_name(*one)} was taken out, and nothing became of it" for one in self._loose]

    def fault(self, text: str) -> None:
        """Something is wrong with a message."""
        self.faults.append(f"{self.path}: {text}")

    def comes(self, item: object) -> int:
        """The number of what is put into the queue: a new one, or the one that it had."""
        if not self.settling:
            self._came += 1
            self._admitted(self._came, item)
            return self._came
        if self._loose:
            return self._loose.pop()[0]
        self._came += 1
        self.fault(f"{_name(self._came, item)} is put back, and it was already")
        return self._came

    def _admitted(self, number: int, item: object) -> None:
        """What waits for room comes in by turns, and nothing before it but what needs no room."""
        if not self.line or isinstance(item, Tick):
            return
        first = next(iter(self.line))
        if self.line[first] is item:
            del self.line[first]
        else:
            waiting = _text(self.line[first])
            self.fault(f"{_name(number, item)} overtakes {waiting}, which waits for room")

    def taken(self, number: int, item: object, following: int | None) -> None:
        """It was taken out of the queue, in which `following` is the first now."""
        for text in self.lost():
            self.fault(text)
        self._loose = [(number, item)]
        if following is not None and following < number:
            self.fault(f"{_name(number, item)} comes before number {following}, which is older")

    def hands(self, item: object) -> None:
        """It is given to a run; or what the run had is taken from it."""
        if item is NOTHING:
            if self._hand is not None:
                self._loose.append(self._hand)
                self._hand = None
        elif self._loose:
            self._hand = self._loose.pop()
        else:
            self.fault(f"{_text(item)} is handled, and it was not in the queue")

    def ended(self) -> None:
        """What was taken out has come to its end; or something that was never in the queue has."""
        if self._loose:
            self._loose.pop()

    def __repr__(self) -> str:
        return f"<Postbook of {self.path}: {self._came} came, {len(self.faults)} faults>"


class _Queue(deque[object]):
    """A mailbox' queue, and the numbers of what is in it."""

    def __init__(self, book: Postbook, items: Iterable[object] = ()) -> None:
        super().__init__()
        self.book = book
        self.numbers: deque[int] = deque()
        for item in items:
            self.append(item)

    def append(self, item: object, /) -> None:
        self.numbers.append(self.book.comes(item))
        super().append(item)

    def appendleft(self, item: object, /) -> None:
        self.numbers.appendleft(self.book.comes(item))
        super().appendleft(item)

    def popleft(self) -> object:
        item = super().popleft()
        number = self.numbers.popleft()
        self.book.taken(number, item, self.numbers[0] if self.numbers else None)
        return item

    def __delitem__(self, index: Any, /) -> None:
        self.book.taken(self.numbers[index], self[index], None)
        del self.numbers[index]
        super().__delitem__(index)

    def without_ticks(self, kept: Iterable[object]) -> _Queue:
        """What is left when the ticks of a run that has ended are taken out."""
        left = _Queue(self.book)
        wanted = deque(kept)
        for number, item in zip(self.numbers, self, strict=True):
            if wanted and wanted[0] is item:
                wanted.popleft()
                left.numbers.append(number)
                super(_Queue, left).append(item)
            elif not isinstance(item, Tick):
                self.book.fault(f"{_name(number, item)} is lost at the end of a run")
        for item in wanted:
            self.book.fault(
                f"{_text(item)} is in the queue after the end of a run, and was not before"
            )
            left.append(item)
        return left


_PLACES: Final[Mapping[str, Any]] = vars(Mailbox)
"""Where a mailbox keeps its attributes."""


def _counter(name: str) -> Any:
    place = _PLACES[name]

    def count(box: _Witness, value: int) -> None:
        if value > place.__get__(box):
            _book(box).ended()
        place.__set__(box, value)

    return property(place.__get__, count)


def _replace(box: _Witness, queue: deque[object]) -> None:
    old: _Queue = box.queue
    # One without room is that of a mailbox that is closed: all that was queued ends, and is counted.
    new = _Queue(old.book) if queue.maxlen == 0 else old.without_ticks(queue)
    _PLACES["queue"].__set__(box, new)


def _give(box: _Witness, item: object) -> None:
    _book(box).hands(item)
    _PLACES["in_hand"].__set__(box, item)


class _Witness(Mailbox):
    """A mailbox with a book. It has no place of its own, so a mailbox that is there can become one."""

    __slots__ = ()

    handled: Any = _counter("handled")
    dropped: Any = _counter("dropped")
    dead_lettered: Any = _counter("dead_lettered")
    queue: Any = property(_PLACES["queue"].__get__, _replace)
    in_hand: Any = property(_PLACES["in_hand"].__get__, _give)

    def enqueue_waiter(self, key: object, item: object) -> None:
        _book(self).line[key] = item
        super().enqueue_waiter(key, item)

    def withdraw(self, key: object) -> bool:
        _book(self).line.pop(key, None)
        return super().withdraw(key)

    def _dismiss_waiters(self) -> None:
        super()._dismiss_waiters()
        _book(self).line.clear()

    def _settle(self, item: object, run: int, error: BaseException | None) -> None:
        book = _book(self)
        book.settling = True
        try:
            super()._settle(item, run, error)
        finally:
            book.settling = False
        for text in book.lost():
            book.fault(text)


def _book(box: _Witness) -> Postbook:
    queue: _Queue = box.queue
    return queue.book


def witness(box: Mailbox) -> Postbook:
    """Keep a book of this mailbox from now on; returns it, the same for each call."""
    if isinstance(box, _Witness):
        return _book(box)
    book, place = Postbook(box.path), _PLACES["queue"]
    place.__set__(box, _Queue(book, box.queue))
    book.line.update(box.waiters or {})
    box.__class__ = _Witness
    return book


def _text(item: object) -> str:
    return repr(item.message if isinstance(item, Letter) else item)


def _name(number: int, item: object) -> str:
    return f"message number {number} ({_text(item)})"
