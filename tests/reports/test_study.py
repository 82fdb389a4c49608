from pathlib import Path

import pytest

from rewardrate.cli.main import main
from rewardrate.errors import InputError
from rewardrate.reports import study

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A study of one cell, a few seeds and steps."""
    pytest.importorskip("numba", reason="the laboratory is not installed")
    place = tmp_path_factory.mktemp("study")
    recipe = place / "small.toml"
    recipe.write_text(
        'families = ["E1"]\ncontexts = [4]\narms = [5]\nagents = ["npg learning_rate=0.1,1 age=50,100", "cucb theory"]\n'
        "steps = 100\nmarks = 5\ntuning_seeds = [900, 901]\nevaluation_seeds = [0, 3]\n"
    )
    assert main(["bandit", "study", str(recipe), "--out", str(place / "out")]) == 0
    return place / "out"


def test_the_page_of_a_study_holds_its_table_and_every_figure_in_the_pages_colours(folder):
    text = study.page(folder)
    assert "Regret at the horizon" in text
    assert text.count("<svg") >= 4
    assert "var(--blue)" in text
    assert " style=" not in text.partition("</style>")[2].partition("<script>")[0]


def test_the_page_of_a_study_is_quiet_in_a_browser(folder, tmp_path, look):
    path = tmp_path / "report.html"
    path.write_text(study.page(folder))
    page = look(path.as_uri(), width=360, height=700, scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator("figure svg path").count() > 20


def test_a_markdown_table_becomes_one_and_other_lines_stay():
    text = study.from_markdown("Of 2 cells: <b>.\n\n| a | b |\n|---|---:|\n| x | 1 |\n")
    assert text.startswith("<p>Of 2 cells: &lt;b&gt;.</p>")
    assert '<td>x</td><td class="n">1</td>' in text
    assert study.from_markdown("only words") == "<p>only words</p>"


def test_a_damaged_study_is_reported(tmp_path):
    (tmp_path / study.FILE).write_bytes(b"nonsense" * 1000)
    with pytest.raises(InputError):
        study.page(tmp_path)
