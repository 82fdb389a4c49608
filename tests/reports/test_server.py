"""The watched page: read-only, for this machine alone, up to date."""

import contextlib
import http.client
import json
import socket
import struct
import threading
import time

import pytest

import made_run
import toy_agent
from rewardrate.errors import InputError
from rewardrate.reports.server import LivePage, Server


@contextlib.contextmanager
def serving(folder):
    with Server(LivePage([folder])) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(server, path="/", method="GET", **headers):
    """Status, headers and text of an answer; Host as a browser would send it unless given."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
    host = headers.pop("Host", f"127.0.0.1:{server.server_address[1]}")
    connection.putrequest(method, path, skip_host=True)
    for name, value in ({"Host": host} | headers).items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read().decode()
    connection.close()
    return found


def test_the_page_is_served_with_headers_that_lock_it_in(both):
    with serving(both) as server:
        status, headers, text = ask(server)
        assert status == 200
        assert "Was pricing time worth it?" in text
        assert "connect-src 'self'" in headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "Access-Control-Allow-Origin" not in headers
        assert server.server_address[0] == "127.0.0.1"
        assert ask(server, "/", "HEAD")[2] == ""
        assert ask(server, "/../../etc/passwd")[0] == 404
        assert ask(server, "/rpg/run.sqlite")[0] == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Host": ""},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_other_hosts_and_origins_are_refused(both, headers):
    with serving(both) as server:
        for path in ("/", "/page", "/state"):
            status, _, text = ask(server, path, **headers)
            assert status == 403
            assert "html" not in text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_nothing_but_reading_is_answered(both, method):
    with serving(both) as server:
        assert ask(server, "/", method)[0] == 501


def test_a_browser_that_turns_away_leaves_no_traceback_in_the_terminal(both, capfd):
    with serving(both) as server:
        for _ in range(3):
            with socket.create_connection(server.server_address) as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{server.server_address[1]}\r\n\r\n".encode())
                client.recv(10)
        time.sleep(0.5)
        assert ask(server, "/state")[0] == 200
    assert "Traceback" not in capfd.readouterr().err


def served(server):
    """Threads that serve a connection now."""
    return sum(thread.name.endswith("(process_request_thread)") for thread in threading.enumerate())


def drip(client, pieces, pause=0.05, seconds=60.0):
    """Send one piece after the other; whether the server ended the connection meanwhile, and after how long."""
    start = time.monotonic()
    client.settimeout(pause)
    while time.monotonic() - start < seconds:
        try:
            client.sendall(next(pieces))
            if client.recv(100) == b"":
                return True, time.monotonic() - start
        except TimeoutError:
            continue
        except OSError:
            return True, time.monotonic() - start
    return False, seconds


@pytest.mark.parametrize(
    "begin", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"], ids=["nothing", "line", "headers"]
)
def test_a_request_that_drips_in_is_ended_at_its_deadline(both, begin):
    with serving(both) as server:
        server.read_seconds = 1.0
        with socket.create_connection(server.server_address) as client:
            client.sendall(begin)
            ended, seconds = drip(client, iter(lambda: b"x", None))
        assert ended
        assert seconds < 40, "a byte now and then does not keep it"
        server.read_seconds = 30.0
        assert ask(server, "/state")[0] == 200


def test_an_answer_that_is_taken_by_drops_is_ended_at_its_deadline(both):
    with serving(both) as server:
        server.send_seconds = 1.0
        server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # else the kernel takes all of the page
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            client.connect(server.server_address)
            client.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{server.server_address[1]}\r\n\r\n".encode())
            end, taken = time.monotonic() + 60, 0
            assert client.recv(1)
            while served(server) and time.monotonic() < end:
                taken += len(client.recv(1))
                time.sleep(0.05)
        assert time.monotonic() < end, "the thread still waits for its client"
        assert taken < 1000
        server.send_seconds = 30.0
        assert ask(server, "/state")[0] == 200


def test_many_idle_connections_take_few_threads_and_leave_room_for_an_honest_one(both):
    with serving(both) as server, contextlib.ExitStack() as stack:
        server.connections = 8
        clients = [stack.enter_context(socket.create_connection(server.server_address)) for _ in range(100)]
        for client in clients:
            with contextlib.suppress(OSError):
                client.sendall(b"GET")
        assert ask(server, "/state")[0] == 200
        end = time.monotonic() + 60
        while served(server) > 8 and time.monotonic() < end:
            time.sleep(0.05)  # those that were ended need a moment to leave
        assert served(server) <= 8


def test_the_folder_is_not_touched(both):
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in both.rglob("*.toml")}
    names = sorted(path.name for path in both.rglob("*") if not path.name.endswith(("-shm", "-wal")))
    with serving(both) as server:
        ask(server)
        ask(server, "/state")
    assert before == {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in both.rglob("*.toml")}
    assert names == sorted(path.name for path in both.rglob("*") if not path.name.endswith(("-shm", "-wal")))


def test_secrets_in_settings_and_events_do_not_reach_the_page(tmp_path):
    config = 'url = "https://user:hunter2@host/v1?api_key=abc123"\napi_key = "sk-verysecretverysecret"\nseed = 3\n'
    folder = made_run.make(tmp_path / "run", steps=2, batch=2, config=config, about={"policy": "https://u:hunter2@h/"})
    with serving(folder) as server:
        text = ask(server)[2]
    assert "seed = 3" in text
    for secret in ("hunter2", "abc123", "verysecret"):
        assert secret not in text


def test_a_run_that_has_not_begun_or_finished_a_step_has_a_page_that_waits(tmp_path):
    with serving(tmp_path) as server:
        assert "waiting for a run to begin" in ask(server, "/state")[2]
        assert ask(server)[0] == 200
        loop = toy_agent.loop(tmp_path / "rpg", steps=2, batch=2)
        try:
            assert "no finished step yet" in ask(server)[2]
            before = json.loads(ask(server, "/state")[2])["stamp"]
            loop.run()
            assert json.loads(ask(server, "/state")[2])["stamp"] != before
            assert "What came out" in ask(server)[2]
        finally:
            loop.log.close()


def test_a_damaged_run_has_a_page_that_says_so(both, tmp_path):
    (tmp_path / "run.sqlite").write_bytes((both / "rpg" / "run.sqlite").read_bytes()[:20_000])
    with serving(tmp_path) as server:
        assert "run log" in ask(server)[2]
        assert "cannot be read" in ask(server, "/state")[2]


def test_a_folder_that_is_not_there_and_a_port_that_is_taken_are_reported(both, tmp_path):
    with pytest.raises(InputError, match="there is no such folder"):
        LivePage([tmp_path / "nothing"])
    with serving(both) as server, pytest.raises(InputError, match="cannot be listened on"):
        Server(LivePage([both]), server.server_address[1])
    with pytest.raises(InputError, match="between 0 and 65535"):
        Server(LivePage([both]), 70_000)


def test_the_page_in_a_browser_follows_the_run(tmp_path, look):
    folder = tmp_path / "live"
    first = toy_agent.loop(folder, steps=2, batch=3)
    first.run()
    with serving(folder) as server:
        page = look(server.url)
        page.locator("#live", has_text="step 2").wait_for()
        page.locator('#tree [data-place="0"] circle').click()
        first.log.close()
        second = toy_agent.loop(folder, steps=4, batch=3)
        second.run()
        second.log.close()
        page.locator("#tree", has_text="of 12 attempts").wait_for()
        assert "Attempt 1\n" in page.locator("#attempt").inner_text()  # what was chosen stays chosen
        assert all(url.startswith(server.url) for url in page.asked)
