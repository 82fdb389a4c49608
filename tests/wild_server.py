"""A chat model on loopback that answers as it is told, by the number of the request, and misbehaves in many ways."""

import contextlib
import json
import select
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Wild(ThreadingHTTPServer):
    """`script`: what to do for each request in turn; then `always`. A text is a reply, a number a status."""

    daemon_threads = True

    def __init__(self, always="hello"):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script, self.always, self.seen, self.guard = [], always, [], threading.Lock()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request, client_address):
        pass  # clients that left are part of the game


PATIENCE = 20.0  # of a client where an honest answer is the point: the machine may be busy
SHORT = 0.5  # where every answer comes too late


class Cut(str):
    """A reply whose connection ends in the middle of it."""


class Slow(str):
    """A reply that comes too late, however long the client waits."""


class Huge(int):
    """A reply of so many bytes."""


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.guard:
            how = server.script.pop(0) if server.script else server.always
            server.seen.append((dict(self.headers), body))
        if callable(how):
            how = how(body)
        if isinstance(how, Slow):
            select.select([self.connection], [], [], 60)  # until the client has given up
            return None
        if isinstance(how, Huge):
            return self.send(200, b" " * int(how))
        if isinstance(how, int):
            return self.send(how, json.dumps({"error": f"no: {self.headers.get('Authorization')}"}).encode())
        if isinstance(how, bytes):
            return self.send(200, how)
        answer = {"choices": [{"message": {"content": str(how)}, "finish_reason": "stop"}]}
        content = json.dumps(answer).encode()
        if isinstance(how, Cut):
            self.send(200, content[: len(content) // 2], length=len(content))
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            return None
        return self.send(200, content)

    def send(self, status, content, length=None):
        self.send_response(status)
        self.send_header("Content-Length", str(length or len(content)))
        if status == 429:
            self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def wild(always="hello"):
    """The server, while it runs."""
    with Wild(always) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
