"""Estimators by name."""

import pytest

import installed_package
from rates.test_settings import OWN
from rewardrate.cli.main import main
from rewardrate.errors import InputError
from rewardrate.rates import NIW, make
from rewardrate.timed.price import Price


def test_an_estimator_is_made_by_name_with_its_settings():
    estimator = make("niw", forgetting=0.5, seed=3)
    assert isinstance(estimator, NIW)
    assert (estimator.forgetting, estimator.seed) == (0.5, 3)


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        ("nwi", {}, "did you mean 'niw'"),
        ("niw", {"forgeting": 0.5}, "did you mean 'forgetting'"),
        ("totals", {"forgetting": "much"}, "forgetting = 'much'"),
    ],
)
def test_a_wrong_name_setting_or_type_is_one_clear_error(kind, settings, words):
    with pytest.raises(InputError, match=words):
        make(kind, **settings)


def test_an_estimator_of_an_installed_package_is_known_by_name_everywhere(tmp_path, monkeypatch, capsys):
    entries = {"rewardrate.estimators": {"half": "half_rate:HalfSettings"}}
    installed_package.add(tmp_path, monkeypatch, "half_rate", OWN, entries)
    assert make("half", forgetting=0.5, seed=1).update([1.0, 3.0], [1.0, 1.0]).mean == pytest.approx(1.0)
    assert type(Price("half").estimator).__name__ == "Half"
    with pytest.raises(InputError, match=r"half\.forgeting.*did you mean 'forgetting'"):
        make("half", forgeting=1.0)
    with pytest.raises(InputError, match="did you mean 'half'"):
        make("hafl")
    assert main(["rate", "check", "half"]) == 1, "half of the true rate is not the rate"
    assert "7 checks, 2 broken." in capsys.readouterr().out
