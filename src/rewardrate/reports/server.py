"""A run's page on this machine's loopback while the run is in progress. It only reads, and serves this machine only.

A browser lets any site send requests to loopback, so a request must name this server as its host (which defeats a name
that resolves to this machine) and must not come from another origin. Nothing but GET and HEAD is answered. A connection
has one deadline for its request and one for its answer, and the number of connections is bounded.
"""

from __future__ import annotations

import contextlib
import json
import math
import socket
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from rewardrate.errors import InputError
from rewardrate.reports.document import document, escape, policy
from rewardrate.reports.page import page, title_of
from rewardrate.reports.redaction import redacted
from rewardrate.reports.run import folders, gather
from rewardrate.runlog import RunLog

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": policy(live=True) + "; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class LivePage:
    """The page of some run folders; built again only when a step has been committed."""

    def __init__(self, places: Sequence[Path]) -> None:
        self.places = [Path(place) for place in places]
        for place in self.places:
            if not place.is_dir():
                raise InputError(
                    "run", str(place), "there is no such folder", "start the run first, or look at its name"
                )
        self._lock = threading.Lock()
        self._made: tuple[str, str] = ("", "")

    def state(self) -> tuple[str, str]:
        """A stamp that changes when a step is committed, and the progress of the runs as text."""
        stamps, words = [], []
        try:
            paths = [path for place in self.places for path in folders(place)]
        except InputError:
            return "none", "waiting for a run to begin"
        for path in paths:
            try:
                with RunLog.open(path, read_only=True) as log, log.snapshot():
                    step, pending = log.last_step(), log.pending()
                stamps.append(f"{path}:{step}")
                done = sum(row.outcome is not None for row in pending)
                words.append(f"{path.name}: step {step}" + (f", {done} of {len(pending)} scripts" if pending else ""))
            except InputError:
                stamps.append(f"{path}:unreadable")
                words.append(f"{path.name}: cannot be read")
        return "|".join(stamps), "; ".join(words[-3:])

    def page(self) -> str:
        """The present page. One request builds it, others wait for it."""
        with self._lock:
            stamp, words = self.state()
            if self._made[0] != stamp:
                self._made = (stamp, self._build(stamp, words))
            return self._made[1]

    def _build(self, stamp: str, words: str) -> str:
        title = title_of(self.places, self.places[0])
        try:
            runs, problems = gather(self.places)
            return page(runs, title, problems=problems, live=True, stamp=stamp)
        except InputError as error:  # no finished step yet, or a damaged file: shown, and read again later
            body = f'<h1>{escape(title)}</h1><p class="lead">{escape(words)}</p>'
            body += f'<p class="notice">{escape(redacted(str(error)))}</p>'
            return document(title, body, data={"charts": {}, "stamp": stamp}, live=True)


class Server(ThreadingHTTPServer):
    """Serves one `LivePage` on loopback. `port` 0 takes a free one; InputError if it is taken.

    A socket's own timeout restarts with every byte, so connections are closed here at their deadline. At the limit, the
    oldest one that waits for its client is closed for a new one.
    """

    daemon_threads = True
    read_seconds = 10.0
    "Deadline of the request."
    send_seconds = 30.0
    "Deadline of the answer, once it is made."
    connections = 32
    "Most at once."

    def __init__(self, live_page: LivePage, port: int = 0) -> None:
        if not 0 <= port < 65536:
            raise InputError("--port", port, "it must lie between 0 and 65535", "0 takes a free one")
        self.live_page = live_page
        self._deadlines: dict[Any, float] = {}
        "Open connection -> when it is ended; infinite while the page is made. In the order they came."
        self._lock = threading.Lock()
        try:
            super().__init__(("127.0.0.1", port), Handler)
        except OSError as error:
            rule = f"it cannot be listened on ({error.strerror})"
            raise InputError("--port", port, rule, "choose another, or 0 for a free one") from None

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a new connection in a thread of its own, if there is room or can be made."""
        with self._lock:
            waiting = [one for one, end in self._deadlines.items() if end < math.inf]
            full = len(self._deadlines) >= self.connections
            if full and waiting:
                _end(waiting[0])
                del self._deadlines[waiting[0]]
            if not full or waiting:
                self._deadlines[request] = time.monotonic() + self.read_seconds
                return super().process_request(request, client_address)
        return self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection that has been served."""
        with self._lock:
            self._deadlines.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """End connections whose time is up; called again and again while serving."""
        now = time.monotonic()
        with self._lock:
            for one in [one for one, end in self._deadlines.items() if end < now]:
                del self._deadlines[one]
                _end(one)

    def allow(self, request: Any, seconds: float) -> bool:
        """Give a connection `seconds` from now; false if it was ended already."""
        with self._lock:
            if request not in self._deadlines:
                return False
            self._deadlines[request] = time.monotonic() + seconds
            return True


def _end(connection: Any) -> None:
    """Shut it down: the thread that waits for it wakes and closes it."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD of the page and its state."""

    server: Server
    server_version, sys_version = "rewardrate", ""
    timeout = 20

    def do_GET(self) -> None:
        """The page, or how far the runs are."""
        if not self.server.allow(self.connection, math.inf):
            return None
        refused = self._refused()
        if refused:
            return self._answer(403, "text/plain", refused)
        path = self.path.partition("?")[0]
        if path in ("/", "/page"):
            return self._answer(200, "text/html", self.server.live_page.page())
        if path == "/state":
            stamp, words = self.server.live_page.state()
            return self._answer(200, "application/json", json.dumps({"stamp": stamp, "words": words}))
        return self._answer(404, "text/plain", "there is nothing here\n")

    do_HEAD = do_GET  # noqa: N815

    def _refused(self) -> str:
        """Why this request is not answered; empty if it is."""
        port = self.server.server_address[1]
        hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        origin = self.headers.get("Origin")
        if self.headers.get("Host", "").lower() not in hosts:
            return "this page is served to this machine alone\n"
        if origin is not None and origin not in {f"http://{host}" for host in hosts}:
            return "this page is not for other sites\n"
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return "this page is not for other sites\n"
        return ""

    def _answer(self, status: int, kind: str, text: str) -> None:
        body = text.encode("utf-8", "replace")
        self.server.allow(self.connection, self.server.send_seconds)
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        with contextlib.suppress(ConnectionError):  # the browser closed the connection
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged."""
