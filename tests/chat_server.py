"""A chat model on loopback that writes scripts for the task digits8x8: good ones, broken ones, and none.

It can refuse: `Chat.statuses` says with which status, by the number of the request (from 1); `Chat.down` is the status
of all requests while it is set. `Chat.scripts` are written instead of its own, one after the other, and `Chat.replies`
are sent as they are.
"""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

SCRIPT = """\
import csv
with open("data/test.csv") as source, open("submission.csv", "w", newline="") as target:
    out = csv.writer(target)
    out.writerow(["id", "digit"])
    rows = list(csv.DictReader(source))
    out.writerows([row["id"], PLACE] for row in rows)
"""


class Chat(BaseHTTPRequestHandler):
    """Answers every second request with a script that guesses a digit, the others with words."""

    asked: ClassVar[list] = []
    answered: ClassVar[list] = []
    statuses: ClassVar[dict] = {}
    down: ClassVar[int | None] = None
    scripts: ClassVar[list] = []
    replies: ClassVar[list] = []

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(body)
        number = len(self.asked)
        status = self.down or self.statuses.get(number, 200)
        if status != 200:
            self.send(status, {"error": {"message": f"request {number} is not liked"}})
            return
        self.answered.append(body)
        digit = "1 if float(row['p36']) > 8 else 2" if number % 2 else "x"
        text = f"A guess.\n```python\n{SCRIPT.replace('PLACE', digit)}```" if number % 3 else "I would rather not."
        if self.scripts:
            text = f"```python\n{self.scripts[(number - 1) % len(self.scripts)]}\n```"
        if self.replies:
            text = self.replies[(number - 1) % len(self.replies)]
        self.send(200, {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]})

    def send(self, status, document):
        reply = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving():
    """Its address, while it runs."""
    Chat.asked, Chat.answered, Chat.statuses, Chat.down = [], [], {}, None
    Chat.scripts, Chat.replies = [], []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Chat)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()
    thread.join()
