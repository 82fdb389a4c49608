"""The docs are true: code runs, links lead somewhere, help pages are current, the paper map names real functions."""

import importlib.util
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


@pytest.fixture(scope="module")
def build():
    spec = importlib.util.spec_from_file_location("docs_build", ROOT / "docs" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_first_twenty_lines_hold_the_claim_a_figure_and_python_that_runs():
    top = "\n".join(README.splitlines()[:20])
    assert "reward per second" in top
    figure = re.search(r"!\[.+\]\((.+)\)", top)
    assert (ROOT / figure[1]).stat().st_size > 10_000
    code = re.search(r"```python\n(.*?)```", top, re.DOTALL)[1]
    assert len([line for line in code.splitlines() if line.strip()]) <= 5
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "reward per second (95 %: " in done.stdout


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_examples_run(path, capsys):
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


def test_every_link_leads_somewhere(build):
    assert [line for page in build.PAGES for line in build.broken_links(page)] == []


def test_a_broken_link_or_anchor_is_noticed(build, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("# A heading: here\n[a](nowhere.md) [b](#a-heading-here) [c](#nothing) [d](https://x.org/y)\n")
    assert build.broken_links(page) == ["page.md: nowhere.md", "page.md: #nothing (no such heading)"]


def test_the_help_pages_in_the_docs_are_those_the_commands_print(build, monkeypatch):
    monkeypatch.setenv("COLUMNS", "110")
    assert build.help_pages() in (ROOT / "docs" / "cli.md").read_text(), "run: make docs"


def test_the_paper_map_points_at_functions_that_exist():
    rows = re.findall(r"^\| .* \| .* \| (.*) \|$", (ROOT / "docs" / "paper-map.md").read_text(), re.MULTILINE)[1:]
    assert len(rows) > 20
    for row in rows:
        for part in row.split(";"):
            file, _, names = part.partition(":")
            file = file.strip(" `")
            source = (ROOT / ("" if file.startswith("recipes/") else "src/rewardrate") / file).read_text()
            for name in re.findall(r"`([\w.]+)`", names):
                leaf = name.split(".")[-1]
                assert re.search(rf"(def|class) {leaf}\b", source), f"{file}: {name}"


def test_the_glossary_lists_every_word_once():
    words = re.findall(r"^\| ([a-z][\w -]*) \|", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    words = [word for word in words if word != "word"]  # the head of each table
    assert len(words) == len(set(words))
    assert 30 <= len(words) <= 45, "the words that matter"


def test_nothing_in_the_docs_is_left_to_fill_in():
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "results").rglob("*.md")]:
        assert not re.search(r"\b(TODO|FIXME|TBD|SPEED_P)\b", path.read_text()), path.name
