"""The orders: a CSV as a shop's export writes it every night, with the faults that such files have. Made from a seed."""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import attrs

__all__ = ["COLUMNS", "Line", "read", "write"]

COLUMNS: Final = ("order", "placed", "customer", "email", "card", "amount", "currency", "note")
_FIRST: Final = (
    "Aïcha", "Amélie", "Björn", "Chiara", "Dagmar", "Emeka", "Femke", "Gökçe", "Håkon", "Inès", "Jürgen",
    "Kaito", "Łukasz", "Maïté", "Noor", "Oisín", "Paulo", "Quentin", "Renée", "Søren", "Tomáš", "Ursula",
    "Værø", "Wanjiru", "Xavi", "Yūki", "Zoë",
)  # fmt: skip
_LAST: Final = (
    "Andersson", "Bäcker", "Çelik", "Dvořák", "Ekström", "Ferreira", "García", "Hébert", "Ibáñez",
    "Jørgensen", "Kowalski", "Løvås", "Müller", "Núñez", "Okafor", "Peeters", "Quirós", "Rossi", "Šimić",
    "Tanaka", "Ünal", "Villeneuve", "Weiß", "Yamamoto", "Zieliński",
)  # fmt: skip
_GIFTS: Final = (
    "Happy birthday!",
    "Please wrap it.",
    "For Nana, with love.",
    "Leave it with the neighbours.",
)
# What a currency has behind the point, and how much of it goes on one order of the usual size.
_CURRENCIES: Final = {
    "EUR": (2, 1),
    "USD": (2, 1.1),
    "GBP": (2, 0.9),
    "CHF": (2, 1),
    "JPY": (0, 160),
}
_SHARES: Final = (50, 20, 15, 10, 5)
_FAULTS: Final = (
    "letter in amount", "comma in amount", "negative", "too exact", "currency", "no card", "no number", "cut off", "latin-1",
)  # fmt: skip


@attrs.frozen
class Line:
    """One line of the file, as it will be enqueued. Nothing of it is judged here."""

    number: int
    ref: str
    """What tells it from others: the order's number or, where there is none to be read, the line's."""
    variables: dict[str, Any]


def read(path: Path) -> Iterator[Line]:
    """Every line after the header. One that is no text, or has not the columns, is passed on as it is, for a person."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            if number == 1:
                continue
            try:
                fields = next(csv.reader([raw.decode("utf-8")]))
            except UnicodeDecodeError:
                fields = []
            if len(fields) == len(COLUMNS):
                found = dict(zip(COLUMNS, fields, strict=True))
                yield Line(number, found["order"] or f"line {number}", {"line": number, **found})
            else:
                text = raw.decode("utf-8", "backslashreplace").rstrip()
                yield Line(number, f"line {number}", {"line": number, "raw": text})


def write(path: Path, *, orders: int, seed: int) -> None:
    """Write a file of so many orders; some of them are exported twice, further down."""
    random = Random(f"orders {seed}")
    again: deque[bytes] = deque()
    part = path.with_suffix(".part")  # who is interrupted here leaves no half of a file
    with part.open("wb") as file:
        file.write(_line(COLUMNS))
        for number in range(1, orders + 1):
            row = _order(random, number)
            fault = random.choice(_FAULTS) if random.random() < 0.03 else ""
            line = _spoilt(row, fault) if fault else _line(row.values())
            file.write(line)
            if not fault and random.random() < 0.02:
                again.append(line)
            if again and random.random() < 0.02:
                file.write(again.popleft())
        file.writelines(again)
    part.rename(path)


def _order(random: Random, number: int) -> dict[str, str]:
    first, last = random.choice(_FIRST), random.choice(_LAST)
    (currency,) = random.choices(list(_CURRENCIES), _SHARES)
    digits, size = _CURRENCIES[currency]
    amount = size * min(2000.0, max(3.0, random.lognormvariate(3.7, 0.9)))
    if random.random() < 0.004:
        amount = size * random.uniform(6000, 20000)
    (kind,) = random.choices(("ok", "nsf", "exp", "sto"), (955, 25, 13, 7))
    minute = number * 1440 // 100_000
    return {
        "order": f"2026-{number:06d}",
        "placed": f"2026-11-28T{minute // 60 % 24:02d}:{minute % 60:02d}:{random.randrange(60):02d}Z",
        "customer": f"{first} {last}",
        "email": f"customer{random.randrange(10**6):06d}@example.com",
        "card": f"tok_{kind}_{random.getrandbits(40):010x}",
        "amount": f"{amount:.{digits}f}",
        "currency": currency,
        "note": random.choice(_GIFTS) if random.random() < 0.1 else "",
    }


def _spoilt(row: dict[str, str], fault: str) -> bytes:
    if fault == "letter in amount":
        row["amount"] = row["amount"][:-1] + "O"
    elif fault == "comma in amount":
        row["amount"] = f"1.{row['amount'].replace('.', ',')}"
    elif fault == "negative":
        row["amount"] = f"-{row['amount']}"
    elif fault == "too exact":
        row["amount"] += "5" if "." in row["amount"] else ".5"
    elif fault == "currency":
        row["currency"] = {"EUR": "EURO", "USD": "US$", "GBP": "", "CHF": "SFR", "JPY": "YEN"}[
            row["currency"]
        ]
    elif fault == "no card":
        row["card"] = ""
    elif fault == "no number":
        row["order"] = ""
    elif fault == "cut off":
        return _line(list(row.values())[:5])
    else:
        row["customer"] = "Renée Müller"
        return _line(row.values()).decode("utf-8").encode("latin-1", "replace")
    return _line(row.values())


def _line(fields: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(fields)
    return text.getvalue().encode("utf-8")
