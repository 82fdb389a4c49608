"""Tables, bars and durations."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardrate.cli.main import main
from rewardrate.cli.terminal import Live, Progress, bold, duration, harmless, table


class Screen(io.StringIO):
    def isatty(self):
        return True


def test_a_table_lines_up_words_left_and_numbers_right():
    text = table(["name", "n"], [["a", "1"], ["long", "100"]], right=(1,))
    assert text.splitlines() == ["name    n", "----  ---", "a       1", "long  100"]


def test_bold_is_for_terminals_that_want_it(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert bold("x", Screen()) == "\x1b[1mx\x1b[0m"
    assert bold("x", io.StringIO()) == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert bold("x", Screen()) == "x"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59, "59 s"), (185, "3 min 05 s"), (7800, "2 h 10 min"), (float("inf"), "?")]
)
def test_durations_read_like_speech(seconds, text):
    assert duration(seconds) == text


def test_on_a_terminal_the_bar_redraws_itself_and_ends_its_line():
    screen = Screen()
    with Progress("problems", 10, screen) as bar:
        bar.pause = 0.0
        bar(5)
        bar(10)
    text = screen.getvalue()
    assert "\r[############            ] problems 5 of 10, 0 s left" in text
    assert text.endswith("\n")


def test_elsewhere_a_line_now_and_then_and_no_control_characters():
    stream = io.StringIO()
    with Progress("problems", 10, stream) as bar:
        bar(1)
        assert stream.getvalue() == ""
        bar.pause = 0.0
        bar(5)
    assert stream.getvalue() == "problems 5 of 10, 0 s left\n"


def test_nothing_done_has_no_time_left_yet():
    stream = io.StringIO()
    bar = Progress("problems", 10, stream)
    bar.pause = 0.0
    bar(0)
    assert "? left" in stream.getvalue()


def test_a_live_line_changes_in_place_and_said_lines_stay():
    screen = Screen()
    with Live(screen) as live:
        live.show("3 of 8\x1b[2J scripts")
        live.say("step 1 done")
    text = screen.getvalue()
    assert "\x1b" not in text, "what a script printed cannot drive the terminal"
    assert "3 of 8 [2J scripts" in text
    assert text.rstrip(" \r").endswith("step 1 done\n")


def test_several_live_lines_are_replaced_by_what_follows():
    screen = Screen()
    with Live(screen) as live:
        live.show("run 1", "run 2\nof 2", "8 min left")
        assert screen.getvalue() == "\rrun 1\n\rrun 2 of 2\n\r8 min left\r8 min left"
        live.say("run 1 done")
    assert screen.getvalue().endswith("8 min left\r\x1b[2A\x1b[J\r\rrun 1 done\n\r\r")


def test_without_a_terminal_only_said_lines_are_printed():
    plain = io.StringIO()
    with Live(plain) as live:
        live.show("3 of 8")
        live.say("step 1 done")
    assert plain.getvalue() == "step 1 done\n"


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_text_from_outside_cannot_command_the_terminal(text):
    found = harmless(text)
    assert len(found) == len(text)
    assert all(letter.isprintable() or letter in "\n\t" for letter in found)
    found.encode("utf-8")


def test_what_a_failed_script_printed_is_shown_without_its_escape_sequences(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "script.py").write_text("import sys; sys.exit('\\x1b]0;owned\\x07\\x1b[2Jfailed')")
    assert main(["tasks", "prepare", "digits8x8"]) == 0
    assert main(["tasks", "run", "digits8x8", str(tmp_path / "script.py")]) == 1
    shown = "".join(capsys.readouterr())
    assert "owned" in shown
    assert "failed" in shown
    assert "\x1b" not in shown
    assert "\x07" not in shown
