"""The fraud scores: an actor that remembers how often a card was seen, and has a bug."""

from __future__ import annotations

from collections import Counter
from random import Random

from actors import Actor

__all__ = ["ModelCrashed", "Scores"]


class ModelCrashed(Exception):
    """The bug."""


class Scores(Actor):
    """Asked with a card, answers 0 (never seen) to 100. What it remembers is gone after a crash, and that is all that is."""

    def __init__(self, every: int) -> None:
        self.seen: Counter[str] = Counter()
        self.every = every  # about so many answers to a crash; 0 is no crash
        self.random = Random()

    async def handle(self, message: str) -> int:
        if self.every and self.random.random() < 1 / self.every:
            raise ModelCrashed("the model divided by zero")
        self.seen[message] += 1
        return min(100, 25 * (self.seen[message] - 1))
