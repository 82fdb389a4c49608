import pytest

from rewardrate.environments.mle.reading import trains


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("model.fit(x, y)", True),
        ("w, *_ = np.linalg.lstsq(x, y)", True),
        ("import shutil\nshutil.copy('data/sample_submission.csv', 'submission.csv')", False),
        ("# model.fit(x, y)\nprint('fit')", False),
        ("x = (", None),
        ("(" * 5000, None),
        ("\x00", None),
    ],
)
def test_a_script_that_fits_nothing_is_told_from_one_that_does(code, answer):
    assert trains(code) is answer
