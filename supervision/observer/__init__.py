"""The observer: a tree seen from outside. Needs the extra: `pip install 'treewarden[observer]'`."""

from __future__ import annotations

from supervision.observer.spec import Observer

__all__ = ["Observer"]
