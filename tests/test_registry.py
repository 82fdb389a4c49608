"""Classes that installed packages add: found by name, imported when asked for, every mistake named."""

import sys

import pytest

import installed_package
from rewardrate import registry
from rewardrate.errors import InputError

GROUP = "rewardrate.tests"
CODE = """
class Oak:
    height = 20

pine = Oak()
"""
ENTRIES = {
    "oak": "forest_one:Oak",
    "pine": "forest_one:pine",
    "elm": "forest_one:Elm",
    "ash": "forest_none:Ash",
    "beech": "forest_broken:Beech",
}


@pytest.fixture
def _packages(tmp_path, monkeypatch):
    installed_package.add(tmp_path / "a", monkeypatch, "forest_one", CODE, {GROUP: ENTRIES})
    broken = {GROUP: {"maple": "forest_broken:Maple", "pine": "forest_broken:Pine"}}
    installed_package.add(tmp_path / "b", monkeypatch, "forest_broken", "1 / 0", broken)
    yield
    sys.modules.pop("forest_one", None)


@pytest.mark.usefixtures("_packages")
def test_names_are_known_without_an_import_and_a_class_is_there_when_it_is_asked_for():
    found = registry.load(GROUP)
    assert list(found) == ["ash", "beech", "elm", "maple", "oak", "pine"]
    assert len(found) == 6
    assert "oak" in found
    assert "oka" not in found
    assert "forest_one" not in sys.modules
    assert found["oak"].height == 20


@pytest.mark.usefixtures("_packages")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("oka", "tree.kind = 'oka': there is no such kind; did you mean 'oak'?"),
        ("pine", "the packages forest_broken and forest_one both offer it; remove one"),
        ("ash", "the package forest_one offers it, but forest_none:Ash cannot be imported (ModuleNotFoundError"),
        ("elm", "but forest_one:Elm cannot be imported (AttributeError"),
        ("maple", "the package forest_broken offers it, but forest_broken:Maple cannot be imported (ZeroDivisionError"),
    ],
)
def test_a_name_that_cannot_be_used_is_an_error_that_names_package_and_reason(name, words):
    with pytest.raises(InputError) as error:
        registry.load(GROUP, "tree.kind")[name]
    assert words in str(error.value)


def test_what_is_not_a_class_is_refused(tmp_path, monkeypatch):
    installed_package.add(tmp_path, monkeypatch, "forest_odd", "pine = 1", {GROUP: {"pine": "forest_odd:pine"}})
    with pytest.raises(InputError, match="forest_odd:pine of the package forest_odd is not a class"):
        registry.load(GROUP)["pine"]


def test_a_group_that_nobody_registered_in_says_how_that_can_be():
    assert not registry.load("rewardrate.nobody")
    with pytest.raises(InputError, match=r"rewardrate\.nobody = 'x'.*install rewardrate again"):
        registry.load("rewardrate.nobody")["x"]
