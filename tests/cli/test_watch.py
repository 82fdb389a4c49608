import json
import re
import signal
import subprocess
import sys
import urllib.request

import pytest

import toy_agent
from rewardrate.cli.main import main


@pytest.fixture
def run(tmp_path):
    loop = toy_agent.loop(tmp_path / "rpg", steps=2, batch=3)
    loop.run()
    loop.log.close()
    return tmp_path / "rpg"


def test_watch_prints_its_address_serves_the_page_and_ends_quietly_when_interrupted(run):
    code = (  # Control-C as in a terminal, whoever started us
        "import signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from rewardrate.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "watch", str(run), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        url = json.loads(process.stdout.readline())["url"]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", url)
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert "What came out" in answer.read().decode()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0
    assert "Traceback" not in said


def test_a_folder_that_is_not_there_and_a_bad_port_are_one_line(run, tmp_path, capsys):
    assert main(["watch", str(tmp_path / "nothing")]) == 2
    assert "there is no such folder" in capsys.readouterr().err
    assert main(["watch", str(run), "--port", "99999"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["watch"]) == 2
