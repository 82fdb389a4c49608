"""A script in the making: lines, and the imports they need."""

from __future__ import annotations

PLAIN = {
    "csv": "import csv",
    "math": "import math",
    "Counter": "from collections import Counter",
    "defaultdict": "from collections import defaultdict",
    "date": "from datetime import date",
    "statistics": "import statistics",
    "np": "import numpy as np",
    "pd": "import pandas as pd",
}
"Name -> the import that binds it, in the order in which they are written."


class SourceWriter:
    """Lines of a script, from the top; imports are gathered and put first."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._plain: set[str] = set()
        self._sklearn: dict[str, set[str]] = {}

    def add(self, *lines: str) -> None:
        """Append lines."""
        self.lines += lines

    def use(self, *names: str) -> None:
        """Import modules or names outside scikit-learn."""
        self._plain.update(names)

    def sklearn(self, module: str, name: str) -> str:
        """Import a name of scikit-learn; gives the name back."""
        self._sklearn.setdefault(module, set()).add(name)
        return name

    @property
    def imports(self) -> list[str]:
        """The import lines."""
        plain = [line for name, line in PLAIN.items() if name in self._plain]
        return plain + [
            f"from sklearn.{module} import {', '.join(sorted(names))}"
            for module, names in sorted(self._sklearn.items())
        ]

    def text(self) -> str:
        """The whole script."""
        return "\n".join(self.imports + self.lines) + "\n"


def listed(names: tuple[str, ...] | list[str]) -> str:
    """Names as a Python list."""
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"
