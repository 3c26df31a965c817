"""Orders: what they are, and believable ones made from a seed."""

from __future__ import annotations

from random import Random
from typing import Final

import attrs

__all__ = ["Order", "make_order"]

_FIRST: Final = (
    "Amara", "Bruno", "Chiara", "Dmitri", "Elif", "Farah", "Goran", "Hanna", "Ines", "Jonas",
    "Kaya", "Leila", "Mateo", "Noor", "Oskar", "Priya", "Ravi", "Sofia", "Tomas", "Yuki",
)  # fmt: skip
_LAST: Final = (
    "Adeyemi", "Bauer", "Costa", "Demir", "Eriksen", "Fontaine", "Garcia", "Haddad", "Ivanova",
    "Jansen", "Kowalski", "Lindgren", "Moreau", "Novak", "Okafor", "Rossi", "Sato", "Weber",
)  # fmt: skip
_GOODS: Final = (
    ("espresso beans, 1 kg", 2190),
    ("oat drink, case of 6", 1140),
    ("paper filters, 100", 495),
    ("hand grinder", 8900),
    ("porcelain cup", 1450),
    ("milk jug, steel", 1990),
    ("descaler, 500 ml", 850),
    ("gooseneck kettle", 6450),
)


@attrs.frozen
class Order:
    """One order; money is in cents."""

    number: int
    customer: str
    item: str
    quantity: int
    cents: int


def make_order(seed: int, number: int) -> Order:
    """Order `number` of the series `seed`: always the same one, so that a restarted intake can go on."""
    random = Random(f"order {seed} {number}")
    item, price = random.choice(_GOODS)
    quantity = random.choices((1, 2, 3, 5, 12), weights=(50, 25, 12, 8, 5))[0]
    customer = f"{random.choice(_FIRST)} {random.choice(_LAST)}"
    return Order(number, customer, item, quantity, price * quantity)
