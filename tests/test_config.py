"""Configs: one declaration, unknown keys refused, every mistake named."""

import dataclasses
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import pytest

import installed_package
from rewardrate import config
from rewardrate.config import AtLeast, Between
from rewardrate.errors import InputError


@dataclass(frozen=True)
class Niw:
    kind: Literal["niw"] = "niw"
    forgetting: Annotated[float, Between(0, 1)] = 0.3
    "How much of the past is kept."


@dataclass(frozen=True)
class Fixed:
    kind: Literal["fixed"] = "fixed"
    rate: float = 0.0


@dataclass(frozen=True)
class Run:
    steps: Annotated[int, AtLeast(1)] = 10
    "Updates to make,\n    at least one."
    name: str = "x"
    live: bool = False
    limit: float | None = None
    pair: tuple[int, int] = (1, 2)
    many: tuple[float, ...] = ()
    estimator: Niw | Fixed = field(default_factory=Niw)


def build(**table):
    return config.build(Run, table)


def test_a_table_fills_the_declared_fields_and_leaves_the_rest_at_their_defaults():
    run = build(steps=3, estimator={"kind": "fixed", "rate": 2}, pair=[3, 4], many=[1, 2.5])
    assert run == Run(steps=3, estimator=Fixed(rate=2.0), pair=(3, 4), many=(1.0, 2.5))


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"stepz": 3}, "stepz = 3: there is no such key; did you mean 'steps'?"),
        ({"steps": 0}, "steps = 0: it must be at least 1"),
        ({"steps": "three"}, "steps = 'three': it must be a whole number"),
        ({"steps": True}, "it must be a whole number"),
        ({"live": 1}, "it must be true or false"),
        ({"limit": float("nan")}, "it must be a finite number"),
        ({"pair": [1]}, "a list of 2 values"),
        ({"pair": 3}, "it must be a list"),
        ({"many": [1, "x"]}, "many[1] = 'x': it must be a number"),
        ({"estimator": {"kind": "nwi"}}, "did you mean 'niw'?"),
        ({"estimator": {"rate": 1.0}}, "estimator.kind"),
        ({"estimator": {"kind": "niw", "forgetting": 2}}, "estimator.forgetting = 2.0: it must lie between 0 and 1"),
        ({"estimator": {"kind": "fixed", "forgetting": 0.3}}, "estimator.forgetting"),
    ],
)
def test_every_mistake_names_its_field(table, words):
    with pytest.raises(InputError) as error:
        build(**table)
    assert words in str(error.value)


def test_a_nested_table_must_be_a_table_and_a_required_field_must_be_there():
    @dataclass(frozen=True)
    class Outer:
        inner: Fixed
        plain: int

    config.Outer = Outer  # type hints are looked up in the module; this class lives in a function
    Outer.__annotations__ = {"inner": Fixed, "plain": int}
    with pytest.raises(InputError, match="it must be a table"):
        config.build(Outer, {"inner": 3, "plain": 1})
    with pytest.raises(InputError, match="plain = None: it is required"):
        config.build(Outer, {"inner": {}})


def test_overrides_win_over_the_file_and_may_name_nested_keys(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('steps = 3\nname = "file"\n')
    run = config.load(Run, path, ["name=word", "estimator.kind=fixed", "estimator.rate=0.5", "many=[1, 2]"])
    assert run == Run(steps=3, name="word", estimator=Fixed(rate=0.5), many=(1.0, 2.0))


def test_an_override_that_chooses_another_kind_begins_that_table_anew(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('steps = 3\n[estimator]\nkind = "niw"\nforgetting = 0.5\n')
    run = config.load(Run, path, ["estimator.rate=2.0", "estimator.kind=fixed"])
    assert run == Run(steps=3, estimator=Fixed(rate=2.0))
    assert config.load(Run, path, ["estimator.kind=niw"]).estimator == Niw(forgetting=0.5)
    path.write_text("[estimator]\nforgetting = 0.5\n")
    assert config.load(Run, path, ["estimator.kind=niw"]).estimator == Niw(forgetting=0.5)


@pytest.mark.parametrize("override", ["steps", "=3"])
def test_an_override_must_read_key_equals_value(override):
    with pytest.raises(InputError, match="key=value"):
        config.load(Run, None, [override])


def test_an_override_into_a_value_is_refused():
    with pytest.raises(InputError, match="is a value, not a table"):
        config.load(Run, None, ["steps=3", "steps.x=4"])


def test_a_missing_malformed_or_binary_file_is_named(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        config.load(Run, tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("steps = = 3")
    with pytest.raises(InputError, match="not valid TOML"):
        config.load(Run, tmp_path / "bad.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot be read as text"):
        config.load(Run, tmp_path / "binary.toml")


def test_what_is_written_reads_back_equal(tmp_path):
    run = build(steps=3, name='quo"te', estimator={"kind": "fixed", "rate": 0.1}, pair=[3, 4], live=True)
    path = tmp_path / "again.toml"
    path.write_text(config.dumps(run))
    assert config.load(Run, path) == run


@dataclass(frozen=True)
class Inner:
    words: str = ""


@dataclass(frozen=True)
class Middle:
    inner: Inner = field(default_factory=Inner)
    size: int = 1


@dataclass(frozen=True)
class Outermost:
    middle: Middle = field(default_factory=Middle)
    choice: Literal[1, 2] = 1
    maybe: int | None = None


def test_nested_tables_and_odd_characters_read_back_equal(tmp_path):
    path = tmp_path / "nested.toml"
    outer = Outermost(Middle(Inner("smile \U0001f600, bell \a, del \x7f, line\nbreak"), 3))
    path.write_text(config.dumps(outer), encoding="utf-8-sig")
    assert config.load(Outermost, path) == outer


def test_nothing_where_the_default_is_something_cannot_be_written():
    @dataclass(frozen=True)
    class Odd:
        size: int | None = 5

    with pytest.raises(InputError, match="TOML cannot write"):
        config.dumps(Odd(None))


def test_literals_are_told_apart_by_kind_and_absurd_files_are_refused(tmp_path):
    for bad in (True, 1.0, 3):
        with pytest.raises(InputError, match="one of 1, 2"):
            config.build(Outermost, {"choice": bad})
    with pytest.raises(InputError, match="no such kind"):
        build(estimator={"kind": [1]})
    with pytest.raises(InputError, match="64-bit"):
        build(limit=10**400)
    (tmp_path / "deep.toml").write_text("many = " + "[" * 3000 + "]" * 3000)
    with pytest.raises(InputError, match="not valid TOML"):
        config.load(Run, tmp_path / "deep.toml")


def test_help_stands_under_the_field():
    assert config.help_of(Run) == {"steps": "Updates to make, at least one."}


def test_recipes_are_found_by_name_and_by_path():
    assert config.find_recipe("theory-check").name == "theory-check.toml"
    assert config.find_recipe("some/file.toml") == Path("some/file.toml")
    with pytest.raises(InputError, match="did you mean 'theory-check'"):
        config.find_recipe("theory-chek")


def test_every_shipped_recipe_loads():
    from rewardrate.bandits import StudyConfig
    from rewardrate.environments.mle.lite import Table
    from rewardrate.pretraining.pretrain import Pretraining
    from rewardrate.theory.check import CheckConfig
    from rewardrate.training.recipe import Recipe

    kinds = {"theory": CheckConfig, "pretrain": Pretraining, "mle-bench-lite": Table, "bandit": StudyConfig}
    for path in (Path(__file__).parent.parent / "recipes").glob("*.toml"):
        kind = next((cls for name, cls in kinds.items() if path.stem.startswith(name)), Recipe)
        assert config.load(kind, path) is not None


@dataclass(frozen=True)
class Chosen:
    estimator: Annotated[Niw | Fixed, config.KindUnlessGiven("niw")] = field(default_factory=Niw)


def test_a_union_may_say_which_kind_a_table_without_one_means():
    assert config.build(Chosen, {"estimator": {"forgetting": 0.5}}).estimator == Niw(forgetting=0.5)
    assert config.build(Chosen, {"estimator": {"kind": "fixed", "rate": 2}}).estimator == Fixed(rate=2.0)
    with pytest.raises(InputError, match=r"estimator\.rate"):
        config.build(Chosen, {"estimator": {"rate": 2}})
    with pytest.raises(InputError, match=r"estimator\.kind"):
        config.build(Chosen, {"estimator": 3})


class Tree:
    """What every member of the open union below is."""


@dataclass(frozen=True)
class Bush(Tree):
    kind: Literal["bush"] = "bush"
    width: Annotated[float, AtLeast(0)] = 1.0


@dataclass(frozen=True)
class Garden:
    tree: Annotated[Tree, config.Registered("rewardrate.tests", "oak")] = field(default_factory=Bush)
    name: str = ""


@dataclass(frozen=True)
class Park:
    tree: Annotated[Tree, config.Registered("rewardrate.tests")] = field(default_factory=Bush)


OAK = """
from dataclasses import dataclass
from typing import Literal

from test_config import Tree

@dataclass(frozen=True)
class Oak(Tree):
    kind: Literal["oak"] = "oak"
    height: float = 20.0
    "Metres."

@dataclass(frozen=True)
class Nameless(Tree):
    height: float = 20.0

class Plain(Tree):
    kind = "plain"
"""


@pytest.fixture
def _oak(tmp_path, monkeypatch):
    names = {"oak": "Oak", "nameless": "Nameless", "plain": "Plain", "alias": "Oak"}
    entries = {name: f"config_oak:{value}" for name, value in names.items()} | {"gone": "config_gone:Gone"}
    monkeypatch.setitem(sys.modules, "test_config", sys.modules[__name__])
    installed_package.add(tmp_path / "oak", monkeypatch, "config_oak", OAK, {"rewardrate.tests": entries})
    yield
    sys.modules.pop("config_oak", None)


@pytest.mark.usefixtures("_oak")
def test_a_union_that_packages_extend_is_built_written_explained_and_read_back(tmp_path):
    path = tmp_path / "garden.toml"
    garden = config.load(Garden, None, ["name=mine", "tree.kind=oak", "tree.height=12"])
    assert type(garden.tree).__module__ == "config_oak"
    assert config.leaves(dataclasses.asdict(garden)) == {"name": "mine", "tree.kind": "oak", "tree.height": 12.0}
    assert config.build(Garden, {"tree": {"height": 12}}).tree == garden.tree
    path.write_text(config.dumps(garden, explain=True))
    assert '[tree]\nkind = "oak"\n# Metres.\nheight = 12.0\n' in path.read_text()
    assert config.load(Garden, path) == garden


@pytest.mark.usefixtures("_oak")
def test_a_member_that_is_made_in_python_needs_no_registration_and_is_checked():
    assert config.build(Garden, {"tree": Bush(width=2.0)}).tree == Bush(width=2.0)
    with pytest.raises(InputError, match=r"tree\.width = -1\.0: it must be at least 0"):
        config.build(Garden, {"tree": Bush(width=-1.0)})


@pytest.mark.usefixtures("_oak")
@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"kind": "oka"}, "tree.kind = 'oka': there is no such kind; did you mean 'oak'?"),
        ({"kind": 3}, "tree.kind = 3: there is no such kind"),
        ({"kind": "oak", "width": 3}, "tree.width = 3: there is no such key"),
        ({"kind": "gone"}, "tree.kind = 'gone': the package config_oak offers it, but config_gone:Gone cannot be"),
        ({"kind": "nameless"}, "config_oak.Nameless is not a dataclass of Tree with a field kind"),
        ({"kind": "plain"}, "config_oak.Plain is not a dataclass of Tree with a field kind"),
        ({"kind": "alias"}, "tree.kind = 'alias': it must be one of oak"),
        ("oak", "tree = 'oak': it must be a table ([tree])"),
    ],
)
def test_every_mistake_in_such_a_union_names_its_field(tree, words):
    with pytest.raises(InputError) as error:
        config.build(Garden, {"tree": tree})
    assert words in str(error.value)


@pytest.mark.usefixtures("_oak")
def test_a_union_without_a_default_lists_what_there_is():
    with pytest.raises(InputError, match=r"tree\.kind = None: it must be one of alias, gone, nameless, oak, plain"):
        config.build(Park, {"tree": {}})


def test_a_class_without_source_code_has_no_help():
    made = dataclasses.make_dataclass("Made", [("size", int, 3)])
    assert config.help_of(made) == {}
    assert config.dumps(made(), explain=True) == "size = 3\n"
