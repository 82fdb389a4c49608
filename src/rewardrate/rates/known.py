"""What is known of an attempt before it runs, as numbers: for estimators that predict reward and seconds (Neural)."""

from __future__ import annotations

import math
import re
import zlib

NUMBER = re.compile(r"(?<![\w.])\d{1,12}(?:\.\d+)?")
IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]", re.MULTILINE)
OF_A_TEXT = ("log characters", "log lines", "log largest number", "imports")
FEATURES = 2 * len(OF_A_TEXT)


def known(code: str, parent_code: str | None) -> tuple[list[float], int]:
    """Features of an attempt, and the state that it was made in: attempts with equal states are alternatives.

    The features are four numbers of its text and the same of the solution that it was to improve, 0 for none. Numbers
    in a text are trees, epochs and rows, so the largest one says much of its seconds. The state is that solution.
    """
    state = 0 if parent_code is None else 1 + zlib.crc32(parent_code.encode(errors="surrogatepass"))
    return [*_measures(code), *_measures(parent_code or "")], state


def _measures(text: str) -> list[float]:
    largest = max((float(number) for number in NUMBER.findall(text.replace("_", ""))), default=0.0)
    lines, imports = len(text.splitlines()), len(IMPORT.findall(text))
    return [math.log1p(len(text)), math.log1p(lines), math.log1p(largest), float(imports)]
