"""Every exception of `supervision`, built from fields.

Floor: the lowest of this package. The rule: what, where, numbers, what happens now, what you can do.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.errors import Built, shown
from actors.options import OptionError

__all__ = [
    "AlreadyPresent",
    "ConfigError",
    "IllegalTransition",
    "MissingExtra",
    "NotRunning",
    "ObserverUnavailable",
    "ServiceMissing",
    "SpecError",
    "StartFailed",
    "StartTimeout",
    "SupervisionError",
    "SupervisorFailed",
    "TooManyChildren",
    "TreeFailed",
    "WatchdogExpired",
]


class SupervisionError(Built):
    """Base of the errors below; never raised itself."""


class SpecError(SupervisionError, OptionError):
    """A worker or supervisor is declared in a way that cannot work. Raised where it is declared.

    `where` is what is being declared, `option` the name of the option, `text` what is wrong with it and what would do.
    """


class ConfigError(SupervisionError, ValueError):
    """The configuration has problems; all of them are listed, each with file, line and key."""

    def __init__(self, problems: Sequence[str]) -> None:
        head = (
            "the configuration has a problem" if len(problems) == 1 else f"{len(problems)} problems"
        )
        super().__init__(f"{head}: " + "; ".join(problems))
        self.problems = tuple(problems)


class IllegalTransition(SupervisionError):
    """This cannot be done in the state it is in. Look at `state`, then choose another verb or wait."""

    def __init__(self, path: str, state: object, wanted: object, hint: str = "") -> None:
        super().__init__(
            f"{path} is {state} and cannot become {wanted}.{' ' + hint if hint else ''}"
        )
        self.path = path
        self.state = state
        self.wanted = wanted


class AlreadyPresent(SupervisionError):
    """A child of this name exists. Choose another name, start the one there is, or remove it first."""

    def __init__(self, path: str, state: object, child: object = None) -> None:
        lives = str(state) in ("running", "restarting")
        advice = (
            "Use it (`child` is its address), or pool.stop() it first"
            if lives
            else "Start it with pool.start(), or pool.remove() it first"
        )
        super().__init__(f"{path} exists already and is {state}. {advice}.")
        self.path = path
        self.state = state
        self.child = child


class TooManyChildren(SupervisionError):
    """The supervisor has as many children as it may have. Wait for one to end, or raise max_children."""

    def __init__(self, path: str, limit: int) -> None:
        super().__init__(
            f"{path} has {limit} children and may have no more (max_children={limit})."
        )
        self.path = path
        self.limit = limit


class NotRunning(SupervisionError):
    """The tree, or the supervisor asked for, is not running (any more)."""

    def __init__(self, path: str, verb: str, why: str = "is not running") -> None:
        super().__init__(f"{path} {why}, so '{verb}' cannot be done.")
        self.path = path
        self.verb = verb


class ServiceMissing(SupervisionError):
    """A constructor needs a service that cannot be found. Register it, or give the parameter a default."""

    def __init__(self, maker: str, parameter: str, kind: object, why: str) -> None:
        name = kind if isinstance(kind, str) else getattr(kind, "__qualname__", kind)
        super().__init__(f"{maker} needs {parameter}: {name}, but {why}.")
        self.maker = maker
        self.parameter = parameter
        self.kind = kind


class StartTimeout(SupervisionError, TimeoutError):
    """A run was not ready in time. Raise start_timeout, or call ctx.started() earlier."""

    def __init__(self, path: str, seconds: float) -> None:
        super().__init__(
            f"{path} was not ready within its start_timeout of {seconds:g} s, so this run was cancelled."
        )
        self.path = path
        self.seconds = seconds


class WatchdogExpired(SupervisionError, TimeoutError):
    """A run gave no sign of progress in time. Call ctx.heartbeat() more often, or find out where it hangs."""

    def __init__(self, path: str, seconds: float, stack: Sequence[str] = ()) -> None:
        at = f" It was at {stack[-1]}." if stack else ""
        super().__init__(
            f"{path} gave no heartbeat for {seconds:g} s (its watchdog), so this run was cancelled.{at}"
        )
        self.path = path
        self.seconds = seconds
        self.stack = tuple(stack)


class StartFailed(SupervisionError):
    """With `start="strict"`, a child failed its first start; what had started was stopped again."""

    def __init__(self, path: str, error: BaseException | None) -> None:
        super().__init__(f"{path} failed to start, so the start was rolled back: {shown(error)}")
        self.path = path
        self.error = error
        self.__cause__ = error


class SupervisorFailed(SupervisionError):
    """A supervisor gave up; `failures` are the last errors of the child that made it, oldest first."""

    def __init__(self, path: str, why: str, failures: Sequence[Exception]) -> None:
        super().__init__(f"supervisor {path} gave up: {why}")
        self.path = path
        self.why = why
        self.failures = tuple(failures)
        if failures:
            self.__cause__ = ExceptionGroup(f"the last failures under {path}", list(failures))

    def leaves(self) -> list[Exception]:
        """The failures at the bottom: those of workers, not of supervisors in between."""
        out: list[Exception] = []
        for failure in self.failures:
            out.extend(failure.leaves() if isinstance(failure, SupervisorFailed) else [failure])
        return out


class TreeFailed(SupervisionError):
    """The root gave up, so `serve` ends. The cause is a group of the last failures, each noted with path and run."""

    def __init__(self, path: str, why: str, failures: Sequence[Exception]) -> None:
        last = f" Last: {shown(failures[-1])}." if failures else ""
        super().__init__(f"the tree {path} failed: {why}.{last}")
        self.path = path
        self.why = why
        self.failures = tuple(failures)
        if failures:
            self.__cause__ = ExceptionGroup(f"the last failures under {path}", list(failures))


class MissingExtra(SupervisionError, ImportError):
    """Something was asked for that needs packages which are not installed. Install the extra that it names."""

    def __init__(self, what: str, extra: str, package: str) -> None:
        super().__init__(f"{what} needs the package {package}: pip install 'treewarden[{extra}]'")
        self.what = what
        self.extra = extra
        self.package = package


class ObserverUnavailable(SupervisionError, OSError):
    """The observer cannot listen where it should, so the tree is not started. Choose another address."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(
            f"the observer cannot listen at {address}: {why}. The tree was not started;"
            " choose another address, or ':0' for any free port."
        )
        self.address = address
        self.why = why
