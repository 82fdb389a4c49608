"""rewardrate sandbox."""

import dataclasses
import json
import os
import sys

import pytest

from rewardrate.cli import sandbox
from rewardrate.cli.main import main
from rewardrate.sandbox import attacks, cores, levels
from rewardrate.sandbox.result import Result


@pytest.fixture
def script(tmp_path, monkeypatch):
    if not sys.platform.startswith("linux") or "namespaces" not in levels.try_isolation().level.name:
        pytest.skip("needs namespaces")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "script.py"
    path.write_text("import sys\nprint('out')\nprint('err', file=sys.stderr)\nopen('made.txt', 'w').write('made')\n")
    return path


def test_run_shows_what_it_printed_brings_files_back_and_says_how_it_ended(capsys, script, tmp_path):
    assert main(["sandbox", "run", str(script), "--seconds", "5", "--set", "cores=1", "--collect", "made.txt"]) == 0
    out, err = capsys.readouterr()
    assert out == "out\n"
    assert err.startswith("err\nok: ")
    assert "isolated by namespaces" in err
    assert (tmp_path / "made.txt").read_text() == "made"


def test_run_prints_json_and_a_failing_script_is_exit_code_1(capsys, script):
    script.write_text("1 / 0")
    assert main(["sandbox", "run", str(script), "--set", "cores=1", "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert (result["status"], result["exit_code"], result["files"]) == ("error", 1, [])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "none.py"], "cannot be read"),
        (["run", "script.py", "--data", "x"], "NAME=PATH"),
        (["run", "script.py", "--set", "cores=0"], "limits.cores = 0"),
        (["run", "script.py", "--set", "corse=1"], "did you mean 'cores'"),
        (["run", "script.py", "--level", "namespace"], "did you mean 'namespaces'"),
        (["run", "script.py", "--clock", "wrist"], "it must be one of wall, cpu, warm"),
        (["run", "script.py", "--hide", "/usr"], "hide the parts of it"),
        (["check", "--level", "limits"], "the attacks would be real"),
        (["check", "--clock", "wram"], "did you mean 'warm'"),
        (["calibrate", "--runs", "0"], "runs = 0"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(capsys, script, arguments, words):
    assert main(["sandbox", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_check_says_what_held_and_notices_surprises_and_stale_entries(capsys, script, monkeypatch):
    honest = attacks.HONEST[0]
    monkeypatch.setattr(attacks, "ATTACKS", (honest,))
    assert main(["sandbox", "check"]) == 0
    assert "1 of 1 held, 0 surprises" in capsys.readouterr().out
    level = sandbox_level()
    monkeypatch.setattr(attacks, "KNOWN", {**attacks.KNOWN, level: frozenset({honest.name})})
    assert main(["sandbox", "check"]) == 1
    assert "STALE" in capsys.readouterr().out
    lies = attacks.Attack("a lie", "print('LEAK')")
    monkeypatch.setattr(attacks, "ATTACKS", (lies,))
    monkeypatch.setattr(attacks, "KNOWN", {**attacks.KNOWN, level: frozenset()})
    assert main(["sandbox", "check", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["broken"] == {"a lie": "it got what it must not"}


def test_run_names_the_clock_and_hides_what_it_is_told_to(capsys, script, tmp_path):
    (tmp_path / "shown").mkdir()
    tmp_path.chmod(0o755)
    (tmp_path / "shown" / "answers").write_text("42")
    script.write_text("print(repr(open('data/x/answers').read()))")
    arguments = ["--set", "cores=1", "--data", f"x={tmp_path / 'shown'}", "--hide", str(tmp_path / "shown" / "answers")]
    assert main(["sandbox", "run", str(script), *arguments, "--clock", "cpu", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["stdout"], result["clock"]) == ("''\n", "cpu")
    assert result["priced_seconds"] == result["cpu_seconds"]


def test_calibrate_scores_the_machine(capsys, script):
    assert main(["sandbox", "calibrate", "--runs", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["score"] > 0
    assert main(["sandbox", "calibrate", "--runs", "1"]) == 0
    assert capsys.readouterr().out.startswith("score ")


def sandbox_level():
    return levels.try_isolation().level.name


def test_a_weak_level_is_never_attacked_as_root(capsys, monkeypatch, script):
    monkeypatch.setattr(sandbox.os, "geteuid", lambda: 0)
    if os.getuid() == 0:
        assert main(["sandbox", "check", "--level", "landlock+seccomp"]) == 2
        assert "ordinary user" in capsys.readouterr().err


def test_a_disturbed_measurement_says_so():
    measured = {"seconds": 1.0, "cpu_seconds": 0.5, "peak_memory_bytes": 2**20, "foreign_share": 0.42}
    result = Result("ok", stdout="", stderr="", files={}, level="x", **measured)
    assert result.contaminated
    assert sandbox._last_line(result).endswith("isolated by x; contaminated: others used its cores for 42% of the time")
    assert "contaminated" not in sandbox._last_line(dataclasses.replace(result, foreign_share=0.0))


def test_too_many_cores_name_the_key_to_set(capsys, script):
    assert main(["sandbox", "run", str(script), "--set", "cores=4096"]) == 2
    most = len(cores.usable())
    assert f"set at most {most} (environment.cores of a recipe, --set cores={most})" in capsys.readouterr().err
    assert main(["sandbox", "run", str(script), "--clock", "sun"]) == 2
    assert capsys.readouterr().err.count("warm") == 1, "what is allowed is said once"
