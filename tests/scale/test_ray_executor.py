"""The executor over a cluster keeps the pool's protocol; a recipe chooses it by name."""

import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from rewardrate import config
from rewardrate.errors import InputError, MissingExtra
from rewardrate.sandbox import Job, Limits, Pool
from rewardrate.scale import RayExecutor
from rewardrate.training.recipe import Recipe, Slots


def test_without_ray_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"rewardrate\[ray\]"):
        RayExecutor()


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"slots": 0}, "slots"),
        ({"repeats": -1}, "repeats"),
        ({"retries": True}, "retries"),
        ({"clock": "sundial"}, "clock"),
        ({"address": 7}, "address"),
        ({"patience_seconds": 0}, "patience_seconds"),
        ({"patience_seconds": "long"}, "patience_seconds"),
        ({"warm_imports": ["no such name!"]}, "warm_imports"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_started(settings, field):
    with pytest.raises(InputError, match=field):
        RayExecutor(**settings)


def test_a_recipe_chooses_its_executor_by_name():
    recipe = config.build(Recipe, {"task": "digits8x8", "sandbox": {"executor": "ray", "address": "10.0.0.1:6379"}})
    assert recipe.sandbox.address == "10.0.0.1:6379"
    assert isinstance(Slots().make(), Pool)
    with pytest.raises(InputError, match="did you mean 'ray'"):
        Slots(executor="rey")
    with pytest.raises(InputError, match=r"sandbox\.address"):
        Slots(address="auto")


@pytest.fixture
def _own_folder(monkeypatch):
    """Its own locks, so that other tests' scripts do not hold it up. The name is short: Ray puts sockets below it."""
    own = Path(tempfile.mkdtemp(prefix="rewardrate-node-"))
    own.chmod(0o711)
    monkeypatch.setenv("TMPDIR", str(own))
    yield
    shutil.rmtree(own, ignore_errors=True)


@pytest.mark.usefixtures("_own_folder")
def test_a_cluster_of_our_own_runs_jobs_in_order_and_ends_with_the_executor(tmp_path):
    ray = pytest.importorskip("ray", reason="Ray is not installed: the executor over a cluster is NOT tested")
    with Slots(executor="ray", slots=1, repeats=0).make() as executor:
        jobs = [Job(f"print({n})", Limits(seconds=20, cores=1)) for n in range(4)]
        assert [result.stdout for result in executor.run(jobs)] == ["0\n", "1\n", "2\n", "3\n"]
        assert executor.run([]) == []
        with pytest.raises(InputError, match=r"cores = 512.*largest node.*environment\.cores"):
            executor.run([Job("", Limits(cores=512))])
        with pytest.raises(InputError, match="list of jobs"):
            executor.run(["print(1)"])
        with pytest.raises(InputError, match="prices every job by wall"):
            executor.run([Job("", clock="cpu")])
        with pytest.raises(InputError, match="no such file"):
            executor.run([Job("", data={"here": tmp_path / "nowhere"})])
        with pytest.raises(InputError, match="minimum"):  # refused on the node, told here
            executor.run([Job("", Limits(cores=1), level="limits")])
    assert not ray.is_initialized()
