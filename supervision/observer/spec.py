"""Observer: how a tree may be looked at and acted upon from outside, as a value.

Floor: above address and messages. The rule: it looks and does not touch, unless it is told so; what would let strangers act is
refused where it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, cast

import attrs

from actors.options import checked, flag
from actors.records import Record
from supervision.errors import SpecError
from supervision.observer.address import Address, parse
from supervision.observer.messages import Request

__all__ = ["DEFAULT_ADDRESS", "Access", "Observer", "observer_of"]

DEFAULT_ADDRESS: Final = "127.0.0.1:8023"
SHORTEST_TOKEN: Final = 8

Access = Callable[[Request], str]
"""Returns `none`, `read` or `act` for a request."""


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Iterable):
        raise SpecError(f"it is a text or several, not {value!r}")
    return tuple(cast("Iterable[str]", value))


def _words(_: object, field: attrs.Attribute[Any], value: tuple[object, ...]) -> None:
    for word in value:
        if not isinstance(word, str) or not word or word != "".join(word.split()):
            raise SpecError(
                f"{field.name} holds texts without spaces, not {word!r}", option=field.name
            )


def _addresses(_: object, __: attrs.Attribute[Any], value: tuple[str, ...]) -> None:
    for text in value:
        parse(text)


def _token(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if value is None:
        return
    if not isinstance(value, str) or len(value) < SHORTEST_TOKEN or not value.isascii():
        raise SpecError(
            f"token is a text of {SHORTEST_TOKEN} plain characters or more, such as"
            " secrets.token_urlsafe() makes",
            option=field.name,
        )


def _function(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if value is not None and not callable(value):
        raise SpecError(
            f"{field.name} is a function of a request that returns 'none', 'read' or 'act',"
            f" not {value!r}",
            option=field.name,
        )


@checked(SpecError)
@attrs.frozen(eq=False, repr=False)
class Observer(Record):
    """How a tree is seen from outside: `serve(tree, observer=Observer("127.0.0.1:8023", actions=True, token=token))`.

    Raises:
        SpecError: an option is wrong, or the whole would let anybody act.
    """

    address: tuple[str, ...] = attrs.field(
        default=(DEFAULT_ADDRESS,),
        converter=_texts,
        validator=_addresses,
        metadata={
            "doc": "where it listens: `host:port`, `:0` for any free port, `unix:/path`; several are a list"
        },
    )
    actions: bool = attrs.field(
        default=False,
        kw_only=True,
        validator=flag,
        metadata={"doc": "true: those who may can also restart, stop, scale and so on"},
    )
    token: str | None = attrs.field(
        default=None,
        kw_only=True,
        repr=False,
        validator=_token,
        metadata={
            "doc": "what has to be shown to act over TCP, and to read where other machines can connect"
        },
    )
    show_messages: bool = attrs.field(
        default=False,
        kw_only=True,
        validator=flag,
        metadata={"doc": "true: contents of dead letters and jobs are shown"},
    )
    access: Access | None = attrs.field(
        default=None,
        kw_only=True,
        validator=_function,
        metadata={
            "doc": "decides instead of the token: a function of a request that returns none, read or act"
        },
    )
    allowed_hosts: tuple[str, ...] = attrs.field(
        default=(),
        kw_only=True,
        converter=_texts,
        validator=_words,
        metadata={"doc": "names under which it may be asked, besides addresses and localhost"},
    )
    allowed_origins: tuple[str, ...] = attrs.field(
        default=(),
        kw_only=True,
        converter=_texts,
        validator=_words,
        metadata={"doc": "other sites whose pages may ask, such as `https://ops.example.org`"},
    )
    required: tuple[str, ...] = attrs.field(
        default=(),
        kw_only=True,
        converter=_texts,
        validator=_words,
        metadata={
            "doc": "dependencies without which it is not ready: `/readyz` is red while their breaker is open"
        },
    )
    stuck_after: float = attrs.field(
        default=5.0,
        kw_only=True,
        metadata={
            "doc": "seconds after which an event loop that does not turn fails the liveness probe"
        },
    )

    def __attrs_post_init__(self) -> None:
        if not self.address:
            raise SpecError("an observer needs an address", where="Observer", option="address")
        stuck: Any = self.stuck_after
        if isinstance(stuck, bool) or not isinstance(stuck, (int, float)) or not stuck > 0:
            raise SpecError(
                f"stuck_after must be a number of seconds above 0, not {stuck!r}",
                where="Observer",
                option="stuck_after",
            )
        if self.actions and not self.guarded and not any(place.path for place in self.places):
            raise SpecError(
                "actions=True lets whoever can connect stop this program: give token=..., or a"
                " unix socket, which only its user can open",
                where="Observer",
                option="actions",
            )

    @property
    def guarded(self) -> bool:
        """True if it can tell who may act over the network."""
        return self.token is not None or self.access is not None

    @property
    def places(self) -> tuple[Address, ...]:
        """Its addresses."""
        return tuple(map(parse, self.address))


def observer_of(value: object) -> Observer:
    """What `serve(observer=value)` means.

    Raises:
        SpecError: nothing.
    """
    if isinstance(value, Observer):
        return value
    if isinstance(value, (str, list, tuple)):
        return Observer(cast("str | Iterable[str]", value))
    if value is True:
        return Observer()
    raise SpecError(
        f"observer is an address, several, or an Observer(...), not {value!r}",
        where="serve()",
        option="observer",
    )
