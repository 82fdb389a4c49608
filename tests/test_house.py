"""The house stays clean: layers, signs, mirror, sizes, and a help page that answers at once."""

import ast
import collections
import re
import resource
import subprocess
import sys
import types
import warnings
from pathlib import Path

import pytest

import conftest
import rewardrate

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "rewardrate"
MODULES = sorted(path for path in SOURCE.rglob("*.py"))
ROOMS = sorted(path.parent for path in SOURCE.glob("*/__init__.py"))

LAYERS = {
    "rates": 1,
    "theory": 1,
    "sandbox": 1,
    "runlog": 1,
    "environments": 2,
    "policies": 2,
    "training": 3,
    "pretraining": 3,
    "bandits": 3,
    "timed": 3,
    "reports": 3,
    "scale": 3,
    "cli": 4,
}
GROUND = {"attempt", "errors", "config", "checks", "chat", "registry", "__init__", "__main__", "__version__"}  # layer 0
MAY_MEET = {("scale", "training"), ("theory", "rates")}
TORCH_FREE = ["rates", "theory", "sandbox", "runlog", "environments", "bandits", "timed", "reports", "cli", "training"]


def room_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names = [node.module or ""]
            if node.module == "rewardrate":  # names of the front door are those of the rooms behind it
                names = [rewardrate._LAZY.get(alias.name) or f"rewardrate.{alias.name}" for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("rewardrate.")}
    return rooms


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down_the_layers(path):
    here = room_of(path)
    if path.parent == SOURCE and path.stem in ("__init__", "__main__"):
        return  # the front door opens every room, lazily
    for there in imported_rooms(path):
        if there in GROUND or there == here or there not in LAYERS:
            continue
        assert here in LAYERS, f"{here} stands on the ground and must not import {there}"
        down = LAYERS[there] < LAYERS[here]
        assert down or (here, there) in MAY_MEET, f"{path.name}: {here} must not import {there}"


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_every_room_has_a_layer(room):
    assert room.name in LAYERS


@pytest.mark.parametrize("room", [name for name in TORCH_FREE if (SOURCE / name).is_dir()])
def test_torch_free_rooms_import_without_torch(room):
    modules = [
        ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts) for path in (SOURCE / room).rglob("*.py")
    ]
    code = "import importlib, sys\n" + "\n".join(f"importlib.import_module({name!r})" for name in modules)
    code += "\nassert 'torch' not in sys.modules, 'torch was imported'"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_the_sign_of_every_room_stands_in_the_map(room):
    sign = (ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or "").splitlines()[0]
    assert sign, f"{room.name} has no sign"
    line = re.search(rf"^\s*{room.name}/\s+(.*)$", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
    assert line, f"{room.name}/ does not stand in the map of docs/architecture.md"
    assert sign.rstrip(".") in line.group(1), f"the map says {line.group(1)!r}, the room {sign!r}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_module_has_its_test(path):
    if path.name in ("__init__.py", "__main__.py"):
        return
    twin = ROOT / "tests" / path.relative_to(SOURCE).parent / f"test_{path.stem}.py"
    assert twin.exists(), f"{twin.relative_to(ROOT)} is missing"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_files_and_functions_stay_small(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 500
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            doc = ast.get_docstring(node, clean=False)
            size = node.end_lineno - node.lineno + 1 - (len(doc.splitlines()) if doc else 0)
            assert size <= 60, f"{node.name} has {size} lines"


def test_class_names_are_unique():
    places = collections.defaultdict(list)
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(SOURCE)))
    assert not {name: found for name, found in places.items() if len(found) > 1}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_calls_with_six_or_more_arguments_name_them(path):
    """Not in the laboratory's compiled code, whose kernels take arguments by place, nor for formats of a log."""
    if room_of(path) == "bandits":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and not any(isinstance(one, ast.Starred) for one in node.args):
            called = ast.unparse(node.func)
            assert len(node.args) < 6 or called in ("syscall", "log.warning"), f"line {node.lineno}: {called}"


@pytest.mark.parametrize("room", ["training", "scale", "pretraining", "cli"])
def test_environments_are_asked_and_not_told_apart(room):
    """What a kind is different in, its class says (environments/environment.py): nobody looks at its type."""
    kinds = {name for path in (SOURCE / "environments").rglob("environment.py") for name in classes(path)}
    assert {"Settings", "MachineLearning", "Speedrun", "SqlTuning"} <= kinds
    for path in (SOURCE / room).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "getattr", "hasattr"):
                about, asked = map(ast.unparse, node.args[:2])
                told_apart = {word.rpartition(".")[2] for word in re.split(r"[^\w.]+", asked)} & kinds
                assert not told_apart, f"{path.name}, line {node.lineno}: {ast.unparse(node)}"
                assert "environment" not in about, f"{path.name}, line {node.lineno}: {ast.unparse(node)}"


def classes(path):
    return [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]


def test_words_that_were_replaced_do_not_come_back():
    """House words that a stranger would not understand, and what stands for them now (docs/glossary.md)."""
    gone = re.compile(
        r"\b(copyist|retold|last_word|merit|doubts|hold (an estimator|estimators|one|it|them) to the contract"
        r"|nobody is charged|nobody's fault|the same command goes on|aloud)\b",
        re.IGNORECASE,
    )
    texts = [*MODULES, *(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "Makefile"]
    assert [(path.name, found[0]) for path in texts for found in gone.finditer(path.read_text())] == []


def test_no_drawer_is_called_utils():
    banned = {"utils", "common", "helpers", "misc", "manager"}
    assert not [path for path in MODULES if banned & set(path.relative_to(SOURCE).with_suffix("").parts)]


def test_help_answers_in_under_three_tenths_of_a_second():
    times = []  # of a core, which others may use too
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "rewardrate", "--help"], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(times) < 0.3


def test_the_front_door_names_what_it_opens():
    assert set(rewardrate.__all__) <= set(dir(rewardrate))
    for name in rewardrate.__all__:
        assert getattr(rewardrate, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = rewardrate.nonsense


def test_every_room_can_be_had_as_an_attribute():
    for room in ROOMS:
        if room.name != "cli":
            assert getattr(rewardrate, room.name).__name__ == f"rewardrate.{room.name}"


def test_versions_agree():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == rewardrate.__version__
    assert f"## {rewardrate.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    assert f"version: {rewardrate.__version__}" in (ROOT / "CITATION.cff").read_text()


def test_every_dependency_has_its_reason():
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    inside = False
    for line in lines:
        inside = inside or line.startswith(("dependencies", "[project.optional-dependencies]"))
        if line.startswith("[tool"):
            break
        if inside and line.strip().startswith('"'):
            assert "#" in line, f"no reason: {line.strip()}"


def test_quick_and_deep_choose_by_markers_that_are_declared_and_only_deep_is_left_out_of_the_rest():
    import tomllib

    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert {"slow", "deep", "gpu"} <= {line.partition(":")[0] for line in options["markers"]}
    assert "-m 'not deep'" in options["addopts"]
    makefile = (ROOT / "Makefile").read_text()
    recipes = dict(re.findall(r"^([\w-]+):.*##.*\n((?:\t.*\n)+)", makefile, re.MULTILINE))
    assert "-m 'not slow and not deep'" in recipes["quick"]
    assert "-m deep" in recipes["test-deep"]
    assert "--cov" in recipes["test"]
    assert "-m " not in recipes["test"]


def test_what_is_named_slow_exists():
    tests = ROOT / "tests"
    names = {str(path.relative_to(tests)): path.read_text() for path in tests.rglob("*.py")}
    for start in conftest.SLOW:
        file, _, function = start.partition("::")
        found = [text for name, text in names.items() if name.startswith(file)]
        assert any(f"def {function}" in text for text in found), start


def test_workers_get_every_test_once_and_begin_with_their_share_of_the_long_ones():
    names = [f"{start}::test{n}" for group in conftest.LONG for start in group for n in range(3)]
    assert all(any((ROOT / "tests").glob(f"{start.rstrip('/')}*")) for group in conftest.LONG for start in group)
    items = [types.SimpleNamespace(nodeid=f"tests/{name}") for name in ["a/test_a.py", *names, *map(str, range(99))]]
    for workers in (1, 2, 3, 5):
        dealt = conftest.dealt(items, workers)
        assert sorted(map(id, dealt)) == sorted(map(id, items))
        block = len(items) // workers
        begins = [conftest.name_of(dealt[worker * block]) for worker in range(min(workers, len(conftest.LONG)))]
        assert all(name.startswith(group) for name, group in zip(begins, conftest.LONG, strict=False)), begins


def test_a_deprecation_fails_a_test_only_where_the_code_is_ours():
    for module in ("torch._inductor.compile_fx", "transformers", "numba.cuda"):
        warnings.warn_explicit("old", DeprecationWarning, "file.py", 1, module=module)
    for module in ("rewardrate.policies.static", "tests.policies.test_static"):
        for kind in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
            with pytest.raises(kind):
                warnings.warn_explicit("old", kind, "file.py", 1, module=module)
    with pytest.raises(RuntimeWarning):
        warnings.warn_explicit("overflow", RuntimeWarning, "file.py", 1, module="numpy")
