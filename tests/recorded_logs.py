"""Recorded logs of attempts, how each ended, and the verdict that the docs promise. Shared by several tests."""

import random


def trained(step, total=300):
    return f"step:{step}/{total} train_time:{13 * step}ms step_avg:13.00ms\n"


def validated(step, total=300, loss=None):
    loss = 6.9 - step / 100 if loss is None else loss
    return f"step:{step}/{total} val_loss:{loss:.4f} train_time:{13 * step}ms step_avg:13.00ms\n"


def whole(total=300, cadence=125, *, every=trained):
    lines = []
    for step in range(total + 1):
        if step % cadence == 0 or step == total:
            lines.append(validated(step, total))
        if step < total:
            lines.append(every(step + 1, total))
    return "".join(lines)


TRACE = """Traceback (most recent call last):
  File "train_gpt.py", line 9, in <module>
    print(f"step:{step}/{steps} val_loss:{loss:.4f} train_time:{ms:.0f}ms")
ValueError: step:300/300 val_loss:1.0000 train_time:9ms step_avg:1.00ms is not a number
"""
WHOLE = whole()
BINARY = random.Random(0).randbytes(50_000)

# name: (what was printed, how the process ended, the referee's verdict, what the verdict says)
RECORDED = {
    "an honest run": (WHOLE, "ok", "ok", "validation loss 3.9000"),
    "one step": (whole(1), "ok", "ok", "loss"),
    "total that is a multiple of the cadence": (whole(250), "ok", "ok", "loss"),
    "no training lines": (whole(every=lambda *_: ""), "ok", "ok", "loss"),
    "windows line ends": (WHOLE.replace("\n", "\r\n"), "ok", "ok", "loss"),
    "a launcher's prefix": ("".join(f"[rank0]:{line}\n" for line in WHOLE.splitlines()), "ok", "ok", "loss"),
    "another launcher's prefix": (
        "".join(f"[default0]: {line}\n" for line in WHOLE.splitlines()),
        "ok",
        "ok",
        "loss",
    ),
    "two ranks print alike": ("".join(2 * f"{line}\n" for line in WHOLE.splitlines()), "ok", "ok", "loss"),
    "two ranks glued on one line": (
        "".join(f"{line}{line}\n\n" for line in WHOLE.splitlines()),
        "ok",
        "ok",
        "loss",
    ),
    "lines without step_avg": (WHOLE.replace(" step_avg:13.00ms", ""), "ok", "ok", "loss"),
    "talk in between": ("compiling\n" + WHOLE.replace("\nstep:7/", "\npeak memory: 3 GiB\nstep:7/"), "ok", "ok", ""),
    "early stop, said so by its training lines": (
        whole(250).replace("/250", "/300"),
        "ok",
        "ok",
        "loss",
    ),
    "binary noise around the lines": (
        BINARY + b"\n" + WHOLE.encode() + b"\xff\x00\n" + BINARY,
        "ok",
        "ok",
        "loss",
    ),
    "thirty megabytes of talk": ("x" * 79 + "\n", "ok", "ok", "loss"),  # filled in below
    "a traceback that was survived": (WHOLE + TRACE, "ok", "ok", "validation loss 3.9000"),
    "a source listing": (TRACE.replace("ValueError", "# ") + WHOLE, "ok", "ok", "validation loss 3.9000"),
    "cut in its last line": (WHOLE[:-40], "ok", "cadence-violation", "last"),
    "cut before the last validation": (
        WHOLE[: WHOLE.index("step:300/300 val_loss")],
        "ok",
        "cadence-violation",
        "trained up to step 300",
    ),
    "no validation at step 0": (WHOLE.replace(validated(0), ""), "ok", "cadence-violation", "not at step 0"),
    "one validation left out": (WHOLE.replace(validated(125), ""), "ok", "cadence-violation", "due"),
    "one validation too many": (
        WHOLE.replace(validated(125), validated(60) + validated(125)),
        "ok",
        "cadence-violation",
        "step 60",
    ),
    "every 100 steps": (whole(cadence=100), "ok", "cadence-violation", "step 100"),
    "every 250 steps": (whole(500, cadence=250), "ok", "cadence-violation", "step 250"),
    "only at the end": (validated(300), "ok", "cadence-violation", "step 300, not at step 0"),
    "stopped early without training lines": (
        validated(0) + validated(125),
        "ok",
        "cadence-violation",
        "without a validation at the last step",
    ),
    "two losses for one step": (
        WHOLE + validated(300, loss=1.0),
        "ok",
        "parse-failure",
        "two losses for step 300: 3.9000 and 1.0000",
    ),
    "back in time": (WHOLE + validated(125), "ok", "parse-failure", "after that of step 300"),
    "diverged": (WHOLE.replace("val_loss:3.9000", "val_loss:nan"), "ok", "parse-failure", "val_loss:nan at step 300"),
    "a negative loss": (WHOLE.replace("val_loss:3.9000", "val_loss:-3.0"), "ok", "parse-failure", "val_loss:-3"),
    "a loss of minus zero": (WHOLE.replace("val_loss:3.9000", "val_loss:-0.0000"), "ok", "parse-failure", "above 0"),
    "an indented record alone": (
        WHOLE.replace(validated(300), "    " + validated(300)),
        "ok",
        "cadence-violation",
        "the first: 'step:300/300 val_loss:3.9000",
    ),
    "one line that is no record": (
        WHOLE.replace("step:125/300 val_loss:5.6500", "step:125/300 val_loss:5.65?"),
        "ok",
        "cadence-violation",
        "the first: 'step:125/300 val_loss:5.65?",
    ),
    "timeout beyond its total": (
        WHOLE + validated(375, 300, loss=3.1),
        "timeout",
        "parse-failure",
        "it printed step 375 of 300",
    ),
    "nothing": ("", "ok", "parse-failure", "no validation line"),
    "binary alone": (BINARY, "ok", "parse-failure", "no validation line"),
    "a fake line in a traceback alone": (TRACE, "ok", "parse-failure", "lines mention val_loss in another form"),
    "another format": ("val loss 3.1 at step 300\nval_loss:3.1\n", "ok", "parse-failure", "1 lines mention val_loss"),
    "letters that look like digits": (WHOLE.replace("0", "٠"), "ok", "parse-failure", "no validation line"),
    "one line of ten megabytes": ("step:0/1 val_loss:1." + "1" * 10_000_000, "ok", "parse-failure", "no validation"),
    "crash before any line": (TRACE, "error", "error", "ValueError: step:300/300 val_loss:1.0000"),
    "crash after good lines": (WHOLE, "error", "error", "exit code 1"),
    "out of memory": (WHOLE, "memory", "error", "more than"),
    "killed by a signal": (WHOLE, "killed", "error", "SIGKILL"),
    "timeout with lines": (WHOLE[: WHOLE.index("step:260/300")], "timeout", "timeout", "validation loss 4.4000"),
    "timeout right after step 0": (validated(0), "timeout", "timeout", "validation loss 6.9000"),
    "timeout in the middle of a line": (
        WHOLE[: WHOLE.index("step:250/300 val_loss") + 20],
        "timeout",
        "timeout",
        "validation loss 5.6500",
    ),
    "timeout at the very end": (WHOLE, "timeout", "timeout", "validation loss 3.9000"),
    "timeout without lines": ("compiling\n", "timeout", "timeout", "no validation line was printed within"),
    "timeout with training lines only": (trained(1) + trained(2), "timeout", "timeout", "no validation line"),
    "timeout with a validation left out": (
        WHOLE[: WHOLE.index("step:299/300")].replace(validated(125), ""),
        "timeout",
        "cadence-violation",
        "due at step 125",
    ),
    "timeout, and validation had been given up": (
        validated(0) + "".join(trained(step) for step in range(1, 200)),
        "timeout",
        "cadence-violation",
        "step 199 was trained without a validation at 125",
    ),
    "the sandbox broke": (WHOLE, "sandbox-failure", "sandbox-failure", "the sandbox failed"),
}
text, *rest = RECORDED["thirty megabytes of talk"]
RECORDED["thirty megabytes of talk"] = (WHOLE.replace("\nstep:100/", "\n" + 400_000 * text + "step:100/"), *rest)


def output(name):
    text = RECORDED[name][0]
    return text if isinstance(text, bytes) else text.encode()
