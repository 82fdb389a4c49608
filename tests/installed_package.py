"""A package outside the tree, as an installer leaves it: a module, and metadata with its entry points."""

from pathlib import Path

LETTERS = '''from dataclasses import dataclass
from typing import Literal

from rewardrate.attempt import Outcome
from rewardrate.environments import Environment, EnvironmentSettings, RunSetup


class Letters(Environment):
    """Different letters in few characters; a character takes a tenth of a second."""

    limit_seconds = 30.0

    def prompt(self, parent=None):
        return [{"role": "user", "content": "Write many different letters."}]

    def stream(self, replies, parents=None):
        for index, reply in enumerate(replies):
            reward = float(len(set(reply)))
            yield index, Outcome(True, reward, reward, 0.1 * max(1, len(reply)), "letters", "ok", reply or "-")


class LettersSetup(RunSetup):
    def facts(self):
        return {"metric": "letters", "direction": "maximize"}

    def environment(self, executor, count):
        return Letters()


@dataclass(frozen=True)
class LettersSettings(EnvironmentSettings):
    kind: Literal["letters"] = "letters"

    def setup(self, task, clock):
        return LettersSetup()
'''
"The code of a kind of environment in which a reply earns its different letters, and a character takes time."


def add(folder: Path, monkeypatch, name: str, code: str, entries: dict[str, dict[str, str]]) -> None:
    """Put the module `name` with `code` on the path; `entries`: group -> entry point -> place."""
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    groups = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in named.items()) for group, named in entries.items()]
    (about / "entry_points.txt").write_text("\n".join(groups))
    (folder / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(folder)
