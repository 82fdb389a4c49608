"""Forms in which harmless differences are gone, and others are not."""

import ast

import pytest

from rewardrate.environments.speedrun.normal_form import alternatives, is_batch, normal, root, script_of, whole
from rewardrate.environments.speedrun.texts import bindings


def expression(text):
    return ast.parse(text, mode="eval").body


ALIKE = {
    "x.to(device)": "x",
    "x.to(device, non_blocking=True)": "x",
    "x.to('cuda')": "x",
    "x.to(device=raw.device)": "x",
    "x.pin_memory().cuda()": "x",
    "a or b": "b or a",
    "a and b": "b and a",
    "model(x, y, window)": "model(x, y)",
    "f(x.contiguous())": "f(x)",
}
OTHERS = {
    "x.to(torch.uint8)": "x",
    "x.to(dtype)": "x",
    "x.to(other)": "x",
    "x.to(device, torch.uint8)": "x",
    "x[::2]": "x",
    "a or b": "a and b",
    "model(x, y)": "model(x, z)",
    "loss(x, y, 0.5)": "loss(x, y)",
    "x.half()": "x",
}


@pytest.mark.parametrize(("one", "other"), ALIKE.items(), ids=ALIKE)
def test_harmless_differences_are_gone(one, other):
    assert normal(expression(one)) == normal(expression(other))


@pytest.mark.parametrize(("one", "other"), OTHERS.items(), ids=OTHERS)
def test_other_differences_stay(one, other):
    assert normal(expression(one)) != normal(expression(other))


def test_a_cache_around_a_function_is_gone_and_another_decorator_stays():
    plain, cached, other = (
        normal(ast.parse(f"{line}def f(x):\n    return x").body[0]) for line in ("", "@functools.cache\n", "@g\n")
    )
    assert plain == cached != other


def test_a_model_is_known_under_all_its_names():
    tree = ast.parse(
        "def check(tokens, model): ...\nraw = GPT()\nfast = torch.compile(raw)\nmodel = DDP(fast) if world > 1 else raw"
    )
    script = script_of(tree)
    assert script.models == {"check": 1}
    for name in ("raw", "fast", "model", "model.module", "torch.compile(model)"):
        assert root(expression(name), script.wrapped) == "raw", name
    assert root(expression("GPT()"), script.wrapped) == ""
    assert (
        normal(expression("check(t, fast)"), script) == normal(expression("check(t, raw)"), script) == "check(t, MODEL)"
    )
    assert script.seen == {"raw"}
    assert normal(expression("check(t, GPT())"), script) == "check(t, GPT())"


def test_alternatives_are_the_operands_of_an_or():
    assert alternatives(expression("a or b == c")) == ["a", "b == c"]
    assert alternatives(expression("a and b")) == ["a and b"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("4", {4}), ("4 * B", {128}), ("256 if gpu else 64", {256, 64}), ("B // 0", set()), ("x", set()), ("-1", set())],
)
def test_whole_numbers_of_an_expression(text, expected):
    assert whole(expression(text), bindings(ast.parse("B = 32"))) == expected


@pytest.mark.parametrize(
    ("line", "more", "expected"),
    [
        ("VAL_BATCH = 100", "", True),
        ("val_batch_size: int = 8 * 64", "", True),
        ("VAL_BATCH = 0", "", False),
        ("VAL_BATCH = f(x)", "", False),
        ("VAL_BATCH = 64", "VAL_BATCH = 32", False),
        ("VAL_TOKENS = 64", "", False),
        ("VAL_BATCH = 64", "steps = VAL_TOKENS // VAL_BATCH\nVAL_TOKENS = 128", True),
        ("VAL_BATCH = 48", "steps = VAL_TOKENS // (2 * VAL_BATCH)\nVAL_TOKENS = 128", False),
        ("VAL_BATCH = 64", "steps = VAL_TOKENS // VAL_BATCH", False),
    ],
)
def test_a_batch_size_of_validation_must_lose_no_tokens(line, more, expected):
    tree = ast.parse(f"{line}\n{more}")
    assert is_batch(tree.body[0], tree, bindings(tree)) is expected
