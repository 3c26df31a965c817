"""Accepting a finding in the code it is about, with the reason.

Floor: the lowest of this room. The rule: what is accepted stays visible: the checklist lists it with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from actors.options import OptionError

__all__ = ["accept", "accepted_by"]

F = TypeVar("F", bound=Callable[..., Any])
_MARK: Final = "__accepted_findings__"
_CODE: Final = re.compile(r"TW\d{3}")


def accept(code: str, *, why: str) -> Callable[[F], F]:
    """Decorator for a worker's function, its `Actor` class or a job's handler: this finding is meant so there.

    Args:
        code: of the rule, such as `"TW402"`.
        why: the reason, for the next reader.

    Raises:
        OptionError: it is no code, or there is no reason.
    """
    if not _CODE.fullmatch(code):
        raise OptionError(f"code is one such as 'TW301', not {code!r}", option="code")
    if not why.strip():
        raise OptionError("say why, for the next reader", option="why")

    def decorate(thing: F) -> F:
        setattr(thing, _MARK, {**accepted_by(thing), code: why})
        return thing

    return decorate


def accepted_by(thing: object) -> Mapping[str, str]:
    """What `thing` says is meant so: reasons by code."""
    return getattr(thing, _MARK, {})
