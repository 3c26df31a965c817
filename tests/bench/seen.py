"""One-way messages in a tree that is looked at by ten viewers, one of which has stopped reading.

The viewers are another process, so that what is measured is what the tree itself pays.
"""

from __future__ import annotations

import subprocess
import sys
from math import inf

import trio

from actors import Actor, MailboxSpec
from supervision import Supervisor, Worker, supervisor
from tests.bench.meter import CpuTime

VIEWERS = 10
IDLE = 1000
"""Actors beside the one that gets the messages: each is a row of every frame."""
BATCH = 500

LOOK = """
import sys, threading
from base64 import b64encode
import socket

def look(port, reads):
    viewer = socket.create_connection(("127.0.0.1", port))
    viewer.sendall(b"GET /ws HTTP/1.1\\r\\nHost: localhost\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n"
        b"Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: " + b64encode(bytes(16)) + b"\\r\\n\\r\\n")
    viewer.recv(100)
    said.acquire(); print("looks", flush=True); said.release()
    while reads and viewer.recv(1 << 20):
        pass
    threading.Event().wait()

said = threading.Lock()
port, viewers = int(sys.argv[1]), int(sys.argv[2])
for number in range(viewers):
    threading.Thread(target=look, args=(port, number > 0), daemon=True).start()
sys.stdin.read()
"""


class Sink(Actor):
    """Takes messages and does nothing with them."""

    async def handle(self, message: object) -> None:
        pass


def measure(n: int, viewers: int) -> float:
    """Send `n` messages to one actor of a large tree while so many look."""

    async def main() -> float:
        box = MailboxSpec(capacity=inf)
        tree = Supervisor(
            "bench", [Worker("sink", Sink, mailbox=box), Worker("idle", Sink, replicas=IDLE)]
        )
        async with supervisor.running(tree, log=False, observer=":0") as pool:
            port = pool.seen_at[0].rpartition(":")[2]
            command = [sys.executable, "-c", LOOK, port, str(viewers)]
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as eyes:
                assert eyes.stdout is not None
                assert eyes.stdin is not None
                for _ in range(viewers):
                    await trio.to_thread.run_sync(eyes.stdout.readline)
                ref = pool.ref("sink")
                with CpuTime(n) as spent:
                    for number in range(n):
                        ref.tell_nowait(number)
                        if not number % BATCH:
                            await trio.lowlevel.checkpoint()
                    await ref.ask(None, timeout=60)
                eyes.stdin.close()
        return spent.each

    return trio.run(main)


def by_ten(n: int) -> float:
    return measure(n, VIEWERS)


def by_none(n: int) -> float:
    return measure(n, 0)
