"""What a script's text tells without running it."""

from __future__ import annotations

import ast
import warnings

# Calls that fit something, in scikit-learn, its relatives, and by hand.
FITTING = {
    "fit",
    "fit_transform",
    "fit_predict",
    "partial_fit",
    "fit_resample",
    "train",
    "backward",
    "lstsq",
    "polyfit",
    "solve",
    "curve_fit",
    "minimize",
    "cross_val_predict",
    "pinv",
    "groupby",
    "ols",
}


def trains(code: str) -> bool | None:
    """Whether a script fits a model to data, as far as its calls tell; None when it cannot be parsed.

    Reported, never punished: a clever script may learn in a way that has no such call.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return any(_called(node) in FITTING for node in ast.walk(tree) if isinstance(node, ast.Call))


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""
