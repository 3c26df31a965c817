"""The door: what a job worker is declared with, and what is refused."""

from __future__ import annotations

import pytest
import trio

from actors.jobs import JobWorker, NewJob
from actors.options import OptionError


async def nothing(job, ctx):
    """A handler that has nothing to do."""


REFUSED = {
    "too much ahead": ({"max_jobs_activated": 9}, "8 at most, twice the concurrency of 4"),
    "too little": ({"max_jobs_activated": 3}, "the concurrency, or more"),
    "no place": ({"concurrency": 0}, "1 or more"),
    "no lease": ({"timeout": 0}, "above 0"),
    "a lease for ever": ({"timeout": 1e300}, "at most"),
    "one text": ({"fetch_variables": "name"}, r"write \['name'\]"),
    "a quotation mark": ({"fetch_variables": ['a"b']}, "without quotation marks"),
    "no engine": ({"engine": "sqlite"}, "engine is an Engine"),
    "no dependency": ({"requires": ["bank"]}, "Dependency"),
    "a slip": ({"concurency": 3}, "Did you mean 'concurrency'"),
}


@pytest.mark.parametrize(("options", "why"), REFUSED.values(), ids=REFUSED)
def test_refused_at_the_door(options, why):
    """An option that cannot be is refused where it is written, with the reason."""
    with pytest.raises(OptionError, match=why):
        JobWorker("a", nothing, **options)


@pytest.mark.parametrize("handler", [None, lambda job, ctx: None, trio.sleep])
def test_a_handler_that_is_none(handler):
    """A handler that cannot be awaited with a job and a context is refused."""
    with pytest.raises(OptionError, match="async def"):
        JobWorker("a", handler)


JOBS = {
    "no type": (("",), {}, "not empty"),
    "no retries": (("a",), {"retries": 0}, "1 or more"),
    "a delay into the past": (("a",), {"delay": -1}, "0 or more"),
    "a delay beyond all calendars": (("a",), {"delay": 1e10}, "thirty years"),
    "half a priority": (("a",), {"priority": 0.5}, "whole number"),
    "a priority that cannot be stored": (("a",), {"priority": 2**63}, "64 bits"),
    "retries without end": (("a",), {"retries": 2**31}, "at most"),
    "a type like a novel": (("x" * 501,), {}, "500 bytes at most.*digest"),
    "a key like a novel": (("a",), {"idempotency_key": "x" * 2001}, "2,000 bytes at most"),
    "half a character": (("a",), {"unique": "\ud800"}, "half a character"),
    "an empty text": (("a",), {"unique": ""}, "not empty"),
    "a slip": (("a",), {"retry": 1}, "Did you mean 'retries'"),
}


@pytest.mark.parametrize(("args", "options", "why"), JOBS.values(), ids=JOBS)
def test_a_job_that_cannot_be(args, options, why):
    """A job that could not run is refused where it is written."""
    with pytest.raises(OptionError, match=why):
        NewJob(*args, **options)
