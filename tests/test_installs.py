"""Every documented `pip install` of ours names extras that exist, and pip finds one set of versions for it."""

import functools
import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
INSTALL = re.compile(r"pip install ([^`\n#&|;]*rewardrate\[[^`\n#&|;]*)")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ENGINES = (ROOT / "docs" / "engines.md").read_text()
EXACT = ("torch", "vllm", "verl")


def documented():
    """What pip is told, for every line of ours in the docs."""
    found = {match.strip() for page in PAGES for match in INSTALL.findall(page.read_text())}
    return sorted(found - {""})


def extras(words):
    return {extra for names in re.findall(r"rewardrate\[([\w,-]+)\]", words) for extra in names.split(",")}


def table():
    """{way: {package: version}} of docs/engines.md."""
    _, *names = re.search(r"^\| way \| Python \|(.*)\|$", ENGINES, re.MULTILINE)[0].strip("|").split("|")
    rows = re.findall(r"^\| (\([abc]\)) \| (3\.\d+ .*) \|$", ENGINES, re.MULTILINE)
    cells = {way: [cell.strip() for cell in rest.split("|")] for way, rest in rows}
    return {
        way: {name.strip(): cell for name, cell in zip(names, found, strict=True) if cell and name.strip() != "Python"}
        for way, found in cells.items()
    }


def lines_of_the_ways():
    """{way: what pip is told} of docs/engines.md."""
    parts = re.findall(r"^## (\([abc]\)).*?\n```sh\n(.*?)```", ENGINES, re.MULTILINE | re.DOTALL)
    return {way: INSTALL.search(block)[1].strip() for way, block in parts}


def test_every_documented_install_names_extras_that_exist():
    assert len(documented()) >= 6
    for words in documented():
        assert extras(words) <= set(PROJECT["optional-dependencies"]), words


def test_what_is_documented_to_go_together_is_within_the_ranges_of_the_extras():
    """The trap of two commands: an extra that pins torch 2.13 beside an engine that pins 2.11."""
    requirements = pytest.importorskip("packaging.requirements", reason="packaging reads version ranges")
    assert set(lines_of_the_ways()) == set(table()) == {"(a)", "(b)", "(c)"}
    for way, words in lines_of_the_ways().items():
        versions = table()[way]
        asked = [line for extra in extras(words) for line in PROJECT["optional-dependencies"][extra]]
        asked += [word for word in shlex.split(words) if not word.startswith("rewardrate")]
        for requirement in map(requirements.Requirement, asked):
            version = versions.get(requirement.name.lower())
            assert version is None or requirement.specifier.contains(version), f"{way}: {requirement}, not {version}"


@functools.cache
def resolved(words):
    """{package: version} that pip would install for `words`, with this folder in place of the published package."""
    own = [re.sub(r"^rewardrate(?=\[|$)", str(ROOT), word) for word in shlex.split(words)]
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-"]
    done = subprocess.run([*pip, *own], capture_output=True, text=True, check=False, timeout=1500)
    assert done.returncode == 0, f"pip finds no versions for {words}:\n{done.stderr[-2000:]}"
    found = json.loads(done.stdout)["install"]
    return {one["metadata"]["name"].lower(): one["metadata"]["version"].partition("+")[0] for one in found}


@pytest.fixture(scope="module")
def index():
    """Whether a package index answers."""
    pip = [sys.executable, "-m", "pip", "index", "versions", "verl"]
    done = subprocess.run(pip, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        pytest.skip("no package index answers here: documented installs are NOT resolved")


@pytest.mark.deep
@pytest.mark.usefixtures("index")
@pytest.mark.parametrize("words", documented())
def test_pip_finds_versions_for_every_documented_install(words):
    assert "rewardrate" in resolved(words)


@pytest.mark.deep
@pytest.mark.usefixtures("index")
@pytest.mark.parametrize("way", ["(a)", "(b)", "(c)"])
def test_pip_chooses_the_versions_that_the_page_of_engines_states(way):
    found = resolved(lines_of_the_ways()[way])
    expected = {name: version for name, version in table()[way].items() if name in EXACT}
    assert {name: found.get(name) for name in EXACT} == {name: expected.get(name) for name in EXACT}
