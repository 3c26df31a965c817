"""Stage: a tree that is not there: the page's files, a socket and an API, answered by the test itself.

The page is the real one, in a real browser, under the rules for content that the real server sends. So looks and words can be
tested for moments that no real tree can be brought to at will, and without a second's waiting.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from playwright.sync_api import Page, Route, WebSocketRoute

import supervision
from tests.browser.frames import DETAIL, Story

FILES = Path(supervision.__file__).parent / "observer" / "page"
TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
URL = "http://tree.test/"
TOKEN = "open-sesame"


class Stage:
    """One page and the tree that it believes in."""

    def __init__(self, page: Page, story: Story) -> None:
        self.page = page
        self.story = story
        self.up = True
        self.sockets: list[WebSocketRoute] = []
        self.heard: list[dict[str, Any]] = []
        """What the page said over its sockets."""
        self.orders: list[dict[str, Any]] = []
        """What it asked the tree to do."""
        self.asked: list[tuple[str, dict[str, str]]] = []
        """What it asked the API: path and query."""
        self.answers: dict[str, Any] = {"api/detail": DETAIL}
        """What the API answers at a path; a number is an error's status."""
        page.route(f"{URL}**", self._answer)
        page.route_web_socket("ws://tree.test/ws", self._connected)

    def open(self, at: str = "") -> Stage:
        """Load the page and give it its first frame."""
        self.page.goto(URL + at)
        self.connected(1)
        self.tell()
        return self

    def connected(self, times: int) -> None:
        """Wait until the page has opened its socket so many times."""
        while len(self.sockets) < times:
            self.page.wait_for_timeout(10)

    def tell(self, frames: int = 1, seconds: float = 1.0) -> None:
        """Send so many more frames, and wait until each is drawn."""
        for _ in range(frames):
            frame = self.story.frame(seconds)
            self.sockets[-1].send(json.dumps(frame))
            self.page.wait_for_function(
                "seq => performance.getEntriesByName('frame').at(-1)?.detail.seq === seq",
                arg=frame["seq"],
            )

    def lose(self, code: int = 1006) -> None:
        """Break the connection, and let no new one come about."""
        self.up = False
        self.sockets[-1].close(code=code if code != 1006 else None)

    def text(self, selector: str) -> str:
        """The visible words of an element, in one line."""
        return " ".join(self.page.locator(selector).first.inner_text().split())

    def row(self, path: str) -> str:
        """The visible words of the row of a path."""
        return self.text(f'#tree .rows .row[title="{path}"]')

    def paths(self) -> list[str]:
        """The paths of the rows in the document, from top to bottom."""
        found = self.page.evaluate(
            "[...document.querySelectorAll('#tree .rows .row:not([hidden])')]"
            ".map(row => [row.offsetTop, row.title])"
        )
        return [path for _, path in sorted(found)]

    def _connected(self, socket: WebSocketRoute) -> None:
        if not self.up:
            socket.close()
            return
        socket.on_message(lambda text: self.heard.append(json.loads(text)))
        self.sockets.append(socket)

    def _answer(self, route: Route) -> None:
        target = route.request.url.removeprefix(URL).partition("#")[0]
        path, _, query = target.partition("?")
        self.asked.append((path, dict(parse_qsl(query))))
        if path == "api/do":
            self._do(route)
        elif path.startswith("api/"):
            answer = self.answers.get(path, 404)
            if isinstance(answer, int):
                route.fulfill(
                    status=answer,
                    json={"error": "looking needs the token: Authorization: Bearer TOKEN"},
                )
            else:
                route.fulfill(json=answer)
        else:
            file = FILES / (path or "index.html")
            route.fulfill(
                body=file.read_bytes(),
                headers={
                    "Content-Type": f"{TYPES[file.suffix]}; charset=utf-8",
                    "Content-Security-Policy": "default-src 'self'",
                },
            )

    def _do(self, route: Route) -> None:
        body = route.request.post_data_json
        if route.request.headers.get("authorization") != f"Bearer {TOKEN}":
            answer = {"error": "acting needs the token", "code": "refused"}
            route.fulfill(status=403, json=answer)
            return
        self.orders.append(body)
        whom = body.get("path") or body.get("type") or body.get("key")
        route.fulfill(json={"said": f"{body['verb']}: {whom}", "done": [whom], "failed": {}})
