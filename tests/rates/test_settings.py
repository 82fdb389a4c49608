"""Estimators as a recipe chooses them, and one that an installed package brings."""

import pytest

import installed_package
import toy_agent
from rewardrate import config
from rewardrate.errors import InputError
from rewardrate.rates import NIW, Fixed, Neural, RobbinsMonro, Totals
from rewardrate.rates.settings import NIWSettings, TotalsSettings
from rewardrate.training.recipe import Recipe

OWN = '''
from dataclasses import dataclass
from typing import Literal

from rewardrate.rates import Totals
from rewardrate.rates.settings import EstimatorSettings


class Half(Totals):
    """Charges half of the ratio of totals."""

    def absorb(self, reward, seconds):
        return super().absorb(reward / 2, seconds)


@dataclass(frozen=True)
class HalfSettings(EstimatorSettings):
    """Half of the ratio of totals."""

    kind: Literal["half"] = "half"
    forgetting: float = 1.0
    "Weight that a step keeps until the next."

    def make(self, seed):
        return Half(forgetting=self.forgetting)
'''


def recipe(**settings):
    return config.build(Recipe, {"task": "diamonds", "seed": 3, "estimator": settings})


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({}, NIW),
        ({"kind": "niw", "quantile": 0.5}, NIW),
        ({"kind": "totals"}, Totals),
        ({"kind": "robbins-monro"}, RobbinsMonro),
        ({"kind": "fixed", "rate": 0.25}, Fixed),
    ],
)
def test_an_estimator_is_chosen_by_kind_and_reads_back_from_a_run_s_config(settings, kind):
    made = recipe(**settings)
    assert isinstance(made.make_estimator(), kind)
    assert config.build(Recipe, config.tomllib.loads(config.dumps(made, explain=True))) == made


def test_the_defaults_of_a_recipe_are_those_of_the_paper_with_the_run_s_seed():
    assert recipe().estimator == NIWSettings()
    assert recipe().make_estimator().settings() == NIW(seed=3).settings()


def test_the_percentile_depends_on_the_batch_only_where_a_recipe_says_so():
    def charged(batch, **settings):
        table = {"task": "diamonds", "batch": batch, "estimator": settings}
        return config.build(Recipe, table).make_estimator().quantile

    assert charged(16) == 0.95
    assert charged(16, quantile_batch=128) == pytest.approx(0.7196, abs=1e-4)
    assert charged(128, quantile_batch=128) == charged(256, quantile_batch=128) == 0.95
    assert charged(16, quantile=0.5, quantile_batch=128) == 0.5
    assert config.build(Recipe, {"task": "diamonds", "estimator": {"kind": "totals"}}).make_estimator().forgetting == 1
    for name, expected in (("mle-bench-paper", None), ("nanogpt-paper", None), ("deadline", None), ("laptop", 128)):
        assert config.load(Recipe, config.find_recipe(name)).estimator.quantile_batch == expected


def test_only_an_estimator_that_draws_has_draws_to_save():
    assert NIWSettings(quantile=0.5).with_draws(64) == NIWSettings(quantile=0.5, batches=64)
    assert TotalsSettings().with_draws(64) == TotalsSettings()


def test_a_network_can_be_the_estimator_of_a_run():
    pytest.importorskip("torch", reason="needs the agent extra")
    estimator = recipe(kind="neural", hidden=8, steps=5).make_estimator()
    assert isinstance(estimator, Neural)
    assert estimator.update([1.0, 2.0, 3.0], [2.0, 2.0, 2.0]).rate > 0
    assert estimator.settings()["seed"] == 3


def test_only_an_estimator_of_totals_sees_a_window():
    with pytest.raises(InputError, match="takes single attempts, not totals"):
        config.build(Recipe, {"task": "diamonds", "window": 3, "estimator": {"kind": "totals"}})


def test_an_installed_package_adds_an_estimator_that_a_recipe_can_name_and_a_run_is_priced_by(tmp_path, monkeypatch):
    entries = {"rewardrate.estimators": {"half": "half_rate:HalfSettings"}}
    installed_package.add(tmp_path, monkeypatch, "half_rate", OWN, entries)
    made = recipe(kind="half", forgetting=0.5)
    assert made.make_estimator().update([1.0, 3.0], [1.0, 1.0]).mean == pytest.approx(1.0)
    assert "# Weight that a step keeps until the next." in config.dumps(made, explain=True)
    loop = toy_agent.loop(tmp_path / "run", steps=3, batch=4)
    loop.pricer.estimator = made.make_estimator()
    with loop.log:
        loop.run()
        rows, rates = loop.log.attempts(1), [step.rate.mean for step in loop.log.steps()]
    assert rates[0] == pytest.approx(sum(row.reward for row in rows) / sum(row.seconds for row in rows) / 2)
    with pytest.raises(InputError, match=r"estimator\.kind = 'hafl': .*did you mean 'half'"):
        recipe(kind="hafl")
