"""Messages: loss, margin and seconds of a success; the script's own first error of a crash."""

from rewardrate.environments.speedrun.messages import MOST, crash, shortened, success
from rewardrate.environments.speedrun.race import load

RACE = load("nanogpt-mini", changes={"target_loss": 3.28, "cap_seconds": 180})
OWN = """Traceback (most recent call last):
  File "/job/train_gpt.py", line 7, in <module>
    main()
  File "/job/train_gpt.py", line 5, in main
    raise ValueError("mine")
ValueError: mine"""
LAUNCHER = """Traceback (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main
  File "/lib/torch/distributed/run.py", line 9, in <module>
    main()
torch.distributed.elastic.multiprocessing.errors.ChildFailedError: train_gpt.py FAILED"""


def test_a_success_tells_loss_margin_and_seconds():
    text = success(RACE, 3.27, 3.2712, 61.24, timed_out=False)
    assert text == (
        "validation loss 3.2700 (printed: 3.2712), 0.0100 below the target 3.28 (credited down to 3.25); "
        "61.2 s of wall clock, the cap is 180 s"
    )
    assert "0.0200 above the target" in success(RACE, 3.30, 3.30, 61.0, timed_out=False)
    assert "killed at the cap of 180 s" in success(RACE, 3.30, 3.30, 180.0, timed_out=True)


def test_a_crash_tells_the_script_s_own_error_and_not_the_launcher_s():
    ranked = "\n".join(f"[rank0]: {line}" for line in OWN.splitlines())
    assert crash(f"W1 warning\n{ranked}\n{LAUNCHER}\n", "exit code 1") == f"it crashed (exit code 1): {OWN}"
    assert crash(LAUNCHER, "exit code 1") == "it crashed (exit code 1)"
    assert crash("", "it was ended by SIGKILL") == "it crashed (it was ended by SIGKILL)"
    assert crash("RuntimeError: no trace", "exit code 1") == "it crashed (exit code 1): RuntimeError: no trace"


def test_chained_errors_are_told_together():
    chained = f"{OWN}\n\nDuring handling of the above exception, another exception occurred:\n\n{OWN}2"
    text = crash(f"{chained}\n{LAUNCHER}", "exit code 1")
    assert text.count("ValueError: mine") == 2
    assert "ChildFailedError" not in text


def test_a_long_error_loses_its_middle():
    text = "\n".join(f"line {number}" for number in range(2000))
    short = shortened(text)
    assert len(short) < MOST + 60
    assert short.startswith("line 0\n")
    assert short.endswith("line 1999")
    assert "lines left out" in short
