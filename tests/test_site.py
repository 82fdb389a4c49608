"""The documentation as a site: it builds without a broken link, works from disk, and its notebooks run."""

import dataclasses
import importlib
import inspect
import subprocess
import sys
import typing
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import make_site
import pytest
import reference

import made_run

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


class Page(HTMLParser):
    """What a page links to, what it loads, and its anchors."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors.add(found.get("id"))
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag == "link" and found.get("rel") not in ("canonical", "next", "prev"):
            self.loads.append(found["href"])
        if tag in ("script", "img", "iframe") and found.get("src"):
            self.loads.append(found["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site, by path below it: its pages."""
    pytest.importorskip("zensical", reason="zensical is not installed: pip install 'rewardrate[dev]', or make test")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, DOCS / "make_site.py", "--out", folder / "site", "--keep", folder / "build"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


def test_every_page_stands_in_the_navigation():
    pages = {page for _, found in make_site.NAV for page in ([found] if isinstance(found, str) else found)}
    written = [*DOCS.rglob("*.md"), *DOCS.rglob("*.ipynb"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    assert {str(path.relative_to(ROOT)) for path in written} <= pages
    assert all((ROOT / page).exists() for page in pages)


def test_every_link_of_the_site_leads_somewhere_and_nothing_is_loaded_from_elsewhere(site):
    pages = {path: Page(path) for path in site.rglob("*.html")}
    assert len(pages) > 60
    for path, page in pages.items():
        for link in [*page.links, *page.loads]:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https") and link in page.links:
                continue
            assert not parts.scheme, f"{path.name} loads {link}"
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert there.is_file(), f"{path.relative_to(site)}: {link}"
            if parts.fragment and there in pages:
                assert unquote(parts.fragment) in pages[there].anchors, f"{path.relative_to(site)}: {link}"


def test_a_link_to_a_missing_page_or_heading_stops_the_build(tmp_path):
    page = DOCS / "page.md"
    with pytest.raises(SystemExit, match=r"docs/page\.md: nowhere\.md leads nowhere"):
        make_site.moved_links(page, "[a](nowhere.md)")
    assert make_site.moved_links(page, "```text\n[a](nowhere.md)\n```\n[b](../README.md#cite)") == (
        "```text\n[a](nowhere.md)\n```\n[b](index.md#cite)",
        [ROOT / "README.md"],
    )
    pytest.importorskip("zensical", reason="zensical is not installed: pip install 'rewardrate[dev]', or make test")
    for text, code in (("# Here\n\n[a](#here)\n", 0), ("# Here\n\n[a](#there)\n", 1)):
        (tmp_path / "pages" / "theme").mkdir(parents=True, exist_ok=True)
        (tmp_path / "pages" / "index.md").write_text(text)
        (tmp_path / "pages" / "theme" / "style.css").write_text("")
        assert make_site.generate(tmp_path, tmp_path / "site", [{"Start": "index.md"}]) == code


def test_the_site_can_be_read_and_searched_from_disk(site, chromium):
    page = chromium.new_context(viewport={"width": 390, "height": 780}).new_page()
    asked, complaints = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto((site / "rates.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.goto((site / "index.html").as_uri())
    page.locator("header label[for=__search]").click()
    words = page.get_by_role("combobox", name="Search")
    words.press_sequentially("replay buffers")
    page.get_by_text("Replay buffers (DQN, SAC)").first.wait_for()
    assert words.input_value() == "replay buffers"
    assert complaints == []
    assert [address for address in asked if not address.startswith(("file:", "data:", "blob:", "about:"))] == []


def test_every_key_of_every_recipe_has_a_meaning():
    silent = [
        f"{path}{field.name}"
        for place, _ in reference.RECIPES.values()
        for path, cls in below(config_class(place))
        for field in dataclasses.fields(cls)
        if not reference.configs_of(typing.get_type_hints(cls, include_extras=True)[field.name])
        and field.init and field.name != "kind" and not reference.inherited_help(cls).get(field.name)
    ]  # fmt: skip
    assert silent == []


def config_class(place):
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def below(cls, path=""):
    yield path, cls
    for name, hint in typing.get_type_hints(cls, include_extras=True).items():
        for one in reference.configs_of(hint):
            yield from below(one, f"{path}{name}.")


def test_the_reference_has_a_table_for_every_kind_of_a_recipe_and_states_limits_and_defaults():
    text = reference.recipe_keys()
    for heading in ('### `[policy]`, kind = "endpoint"', '### `[environment]`, kind = "speedrun"', "### `[overhead]`"):
        assert heading in text
    assert "| `batch` | whole number, at least 2 | `128` |" in text
    assert "| `task` | text | required |" in text


@pytest.mark.parametrize("name", reference.API)
def test_every_public_name_is_explained(name):
    module = importlib.import_module(name)
    for one in reference.API[name][1] or module.__all__:
        thing = getattr(module, one)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert inspect.getdoc(thing), one
            assert f"## {one}\n" in reference.api(name, *reference.API[name])


def test_the_notebooks_run(tmp_path):
    pytest.importorskip("nbclient", reason="nbclient is not installed: pip install 'rewardrate[dev]', or make test")
    for arm in ("rpg", "vanilla"):
        made_run.make(tmp_path / "runs" / "demo" / arm, arm=arm, steps=6, batch=8)
    command = [sys.executable, DOCS / "make_notebooks.py", "--folder", tmp_path, "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for path in sorted((DOCS / "notebooks").glob("*.ipynb")):
        assert f"{path.name}: every cell ran" in done.stdout
        assert "image/png" in path.read_text(), f"{path.name} is committed without what it draws: make docs"
