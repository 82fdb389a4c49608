"""The command line: help, verbs, exit codes, one line per mistake."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from rewardrate.cli.main import VERBS, main


def run(capsys, *arguments):
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",), ("help",)])
def test_help_lists_every_verb_with_what_it_is_for(capsys, arguments):
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (0, "")
    for verb, summary in VERBS.items():
        assert verb in out
        assert summary in out


def test_the_version_is_said(capsys):
    assert run(capsys, "--version")[1].startswith("rewardrate ")


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_help_page(capsys, verb):
    try:
        code, out, _ = run(capsys, verb, "--help")
    except SystemExit as stop:  # argparse's own way for single-command verbs
        code, out = stop.code, capsys.readouterr().out
    assert code == 0
    assert f"rewardrate {verb}" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("theroy",), "did you mean 'theory'"),
        (("theory", "chek"), "did you mean 'check'"),
        (("theory", "check", "--instnaces", "3"), "did you mean '--instances'"),
        (("theory", "check", "--instances", "x"), "--instances = 'x': it must be a whole number"),
        (("theory", "check", "--instances", "0"), "instances = 0: it must be at least 1"),
        (("theory", "check", "--set", "contexts=0"), "contexts = 0: it must be at least 1"),
        (("theory", "check", "--set", "contxts=3"), "did you mean 'contexts'"),
        (("theory", "check", "theory-chek"), "did you mean 'theory-check'"),
        (("theory", "solve"), "file"),
        (("theory", "check", "theory-quick", "surplus"), "surplus"),
        (("rate", "fit", "nowhere.csv"), "there is no such file"),
        (("rate", "check", "nwi"), "did you mean 'niw'"),
        (("doctor", "--jsn"), "did you mean '--json'"),
    ],
)
def test_a_mistake_is_one_clear_line_and_exit_code_2(capsys, arguments, words):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert len(err.strip().splitlines()) == 1
    assert err.startswith("rewardrate: error: ")
    assert words in err


def test_a_reader_that_goes_away_is_not_a_mistake():
    command = f"{sys.executable} -m rewardrate doctor --json | head -c 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("0\n")
    assert "Traceback" not in done.stderr


def test_an_interrupt_ends_with_130_and_one_line(tmp_path):
    code = (
        "import signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from rewardrate.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "theory", "check", "--instances", "100000", "--out", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "config.toml").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in err
    assert not (tmp_path / "theory.json").exists()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("InfrastructureError('example.org: status 500')", "example.org: status 500; the same command resumes where"),
        ("type('EndpointError', (RuntimeError,), {})('no')", None),
        ("RuntimeError('a fault of ours')", None),
    ],
)
def test_only_a_failure_outside_is_reported_in_one_line_a_fault_of_ours_is_shown_in_full(error, words):
    """A verb that raises: the error goes through the real command line, in a process of its own."""
    code = (
        "import sys\nfrom rewardrate.cli import doctor\nfrom rewardrate.cli.main import main\n"
        "from rewardrate.errors import InfrastructureError\n"
        f"def fail(arguments): raise {error}\ndoctor.main = fail\nsys.exit(main(['doctor']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if words is None:
        assert "Traceback" in done.stderr
    else:
        assert done.returncode == 2
        assert done.stderr.strip().count("\n") == 0
        assert words in done.stderr


def test_module_and_command_are_the_same():
    done = subprocess.run(
        [sys.executable, "-m", "rewardrate", "doctor", "--json"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["machine"]["cores"] > 0, "a container may have less than one"


ROWS = "reward,seconds\\n0.5,10\\n0.6,20\\n0.7,30\\n"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("rate fit a.csv | true", 0),
        ("--help | true", 0),
        ("doctor | true", 0),
        ("rate fit a.csv >&-", 0),
        ("rate fit - <&-", 2),
        ("rate fit a.csv >/dev/full", 2),
        ("rate fit .", 2),
        ("theory solve .", 2),
    ],
)
def test_closed_full_and_missing_streams_are_no_reason_for_a_traceback(tmp_path, command, code):
    if "/dev/full" in command and not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    shell = f"printf '{ROWS}' > a.csv; {sys.executable} -m rewardrate {command}; echo ${{PIPESTATUS[0]}} > code"
    done = subprocess.run(
        ["bash", "-c", shell], capture_output=True, text=True, cwd=tmp_path, env=environment, check=True
    )
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert int((tmp_path / "code").read_text()) == code


def test_words_that_the_terminal_cannot_show_are_one_line(tmp_path):
    (tmp_path / "a.csv").write_text("step,reward,seconds\n\u00e9,1,1\n\u00e9,1,2\n")
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "rewardrate", "rate", "fit", "a.csv"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [("-h", "train"), ("help", "train"), ("--help", "train")])
def test_help_of_a_verb_is_found_in_either_order(capsys, arguments):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 0
    assert "usage: rewardrate train" in capsys.readouterr().out
    assert run(capsys, "-h", "trian")[0] == 2
    assert "usage: rewardrate bandit COMMAND" in run(capsys, "help", "bandit")[1]


@pytest.mark.parametrize(
    "code",
    [
        "from rewardrate.cli.main import main; sys.exit(main(['train', 'laptop', '--dry-run']))",
        "import rewardrate; rewardrate.train('laptop', sys.argv[1])",
    ],
)
def test_without_an_extra_what_needs_it_names_the_command_that_adds_it(code, tmp_path):
    code = f"import sys; sys.modules['torch'] = None; {code}"  # as if it were not installed
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "run"], capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert "needs torch, which is not installed; add it with: pip install 'rewardrate[agent]'" in last
    assert ("Traceback" in done.stderr) == ("rewardrate.train" in code)
