"""What Trio waits for on behalf of psycopg."""

from __future__ import annotations

import socket

import psycopg
import pytest
from psycopg import waiting

from actors.jobs.postgres.native import _drive


class Dying:
    """A connection whose socket libpq closes after the first wait."""

    def __init__(self, one):
        self.one = one

    @property
    def socket(self):
        if self.one.fileno() == -1:
            raise psycopg.OperationalError("the connection is lost")
        return self.one.fileno()


async def test_a_socket_that_is_closed_between_two_waits():
    """It is a lost connection, not a wait for whatever has the number of that file by now."""
    one, other = socket.socketpair()

    def statement():
        yield waiting.Wait.W
        one.close()
        yield waiting.Wait.R

    with other, pytest.raises(psycopg.OperationalError, match="lost"):
        await _drive(statement(), Dying(one))
