"""A race: which script is trained on which tokens, to which loss, in how many seconds at most; read from a folder."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from rewardrate.config import AtLeast, Between, build, read_toml
from rewardrate.environments.cache import default_folder
from rewardrate.errors import InputError, did_you_mean

FILE = "race.toml"
Device = Literal["cpu", "cuda"]


@dataclass(frozen=True)
class Rules:
    """What race.toml states. Defaults are the paper's (section 4.3 and appendix "NanoGPT")."""

    name: str
    "The folder's name."
    about: str = ""
    "One line for people."
    target_loss: Annotated[float, AtLeast(0.0)] = 3.28
    "The validation loss to reach (paper: L*)."
    credited_margin: Annotated[float, AtLeast(0.0)] = 0.03
    "How far below the target a lower loss is still credited."
    cap_seconds: Annotated[float, AtLeast(1.0)] = 1500.0
    "Seconds from launch after which everything is killed (paper: delta_max)."
    cadence: Annotated[int, AtLeast(1)] = 125
    "A validation pass every so many steps, and at the last one."
    validation_tokens: Annotated[int, AtLeast(1)] = 10_485_760
    "Tokens of every validation pass, exactly."
    processes: Annotated[int, AtLeast(1)] = 8
    "Processes that torchrun starts (paper: one per GPU)."
    cores: Annotated[int, AtLeast(1)] = 8
    "Cores of one attempt; its threads are shared out evenly among the processes."
    device: Device = "cuda"
    "Where the script trains."
    memory_bytes: Annotated[int, AtLeast(2**20)] = 64 * 2**30
    "Memory of one attempt with all its processes."
    model_bytes: Annotated[int, AtLeast(2**10)] = 2 * 2**30
    "The largest saved model that is read."
    script_file: str = "train_gpt.py"
    "The baseline, below the folder of the race."
    seeds_folder: str = "seeds"
    "Folder of records: scripts of known speed that the buffer starts from."
    data: str = "fineweb10B"
    "Name of the token shards: a script sees them as data/NAME/."
    train_files: str = "fineweb_train_*.bin"
    "Name pattern of the shards that a script trains on."
    validation_files: str = "fineweb_val_*.bin"
    "Name pattern of the shards that it validates on."
    text: str = ""
    "What `rewardrate speedrun data` makes the shards from; empty: they are brought by the user."
    checksums: str = ""
    "File of the race with the SHA-256 of the text it was measured with (`text`), or of shards by their names."
    script_bytes: Annotated[int, AtLeast(1)] = 32_768
    "The most that a script may carry: bytes of its file once compressed, code, comments and data together."
    constants: tuple[str, ...] = ()
    "Settings of the script that this race changes, each as `NAME = value`: one script, races of several sizes."
    recompute: bool = True
    "Whether the referee recomputes the loss from the saved models. Without, a printed number is believed (paper)."
    loss_tolerance: Annotated[float, AtLeast(0.0)] = 0.002
    "How far a printed loss may lie from the recomputed one."
    hidden_gap: float = 0.0
    "By how much an honest script's loss on the referee's hidden tokens exceeds that on the tokens it can see."
    hidden_tolerance: Annotated[float, AtLeast(0.0)] = 0.05
    "How far from the gap the two losses may differ: more, and it was fitted to what it could see, or saw the hidden."
    causal_tolerance: Annotated[float, AtLeast(0.0)] = 0.001
    "How far a log-probability may move when only later tokens change. Float32 and bfloat16 on a CPU: 0 was measured."
    gain_tolerance: Annotated[float, AtLeast(0.0)] = 0.0001
    "By how much a loss may be lower than without sight of later tokens: the mean over all places that are probed."
    probes: Annotated[int, AtLeast(1)] = 1024
    "Windows in which later tokens are changed. Looking ahead in a share f of places is unseen with (1 - f) ** probes."
    recompute_seconds: Annotated[float, AtLeast(1.0)] = 600.0
    "Seconds that recomputing may take."
    baseline_steps: Annotated[int, AtLeast(1)] = 5100
    "Training steps of the baseline: models of four times as many are kept to be looked at, and of 64 validations."
    level: Annotated[float, Between(0.0, 0.5)] = 0.01
    "Significance of a claim that rests on repeats."


@dataclass(frozen=True, kw_only=True)
class Race(Rules):
    """One race: its rules, where its files lie, where its prepared shards lie."""

    folder: Path
    prepared: Path
    "Folder with `public` (what scripts see) and `private` (what only the referee sees)."

    @property
    def script(self) -> Path:
        """The baseline train_gpt.py as shipped; `baseline` is its text with this race's constants."""
        return (self.folder / self.script_file).resolve()

    @property
    def seeds(self) -> Path:
        """The folder of records."""
        return (self.folder / self.seeds_folder).resolve()

    @property
    def public(self) -> Path:
        """The shards a script sees as data/<data>/."""
        return self.prepared / "public"

    @property
    def private(self) -> Path:
        """What no script sees: the hidden validation shard."""
        return self.prepared / "private"

    @property
    def credited_loss(self) -> float:
        """The lowest loss that is credited (paper: 3.25)."""
        return self.target_loss - self.credited_margin

    @cached_property
    def script_text(self) -> str:
        """The text of the baseline as shipped."""
        try:
            return self.script.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            remedy = "put the race's train_gpt.py there"
            raise InputError("script", str(self.script), f"it cannot be read: {error}", remedy) from None

    @cached_property
    def baseline(self) -> str:
        """The text of the baseline, with the constants of this race."""
        return self.with_constants(self.script_text)

    def with_constants(self, text: str) -> str:
        """A script written for the family of this race, with this race's constants put in."""
        for line in self.constants:
            name, value = constant(line)
            text, count = re.subn(rf"^({name} *= *)[^\n#]*?( *#[^\n]*)?$", rf"\g<1>{value}\g<2>", text, flags=re.M)
            if count != 1:
                rule = f"the script assigns {name} {count} times at the start of a line, and it must be once"
                raise InputError("constants", line, rule)
        return text


def constant(line: str) -> tuple[str, str]:
    """("NAME", "value") from "NAME = value"; the value is a Python literal."""
    name, separator, value = (part.strip() for part in line.partition("="))
    try:
        ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        separator = ""
    if not separator or not re.fullmatch(r"[A-Z][A-Z0-9_]*", name) or "\\" in value or "\n" in value:
        raise InputError("constants", line, "it must read NAME = value, with a plain Python value")
    return name, value


def shipped() -> dict[str, Path]:
    """Name -> folder of the races that come with the package."""
    here = Path(__file__).parents[2]
    folders = [here / "races", here.parent.parent / "races"]  # installed wheel; source checkout
    found = [path.parent for folder in folders if folder.is_dir() for path in sorted(folder.glob(f"*/{FILE}"))]
    return {folder.name: folder for folder in found}


def find(name: str) -> Path:
    """The folder of a race given by name or by path. InputError with the nearest name."""
    known = shipped()
    if name in known:
        return known[name]
    path = Path(name)
    if (path / FILE).is_file():
        return path.resolve()
    if path.is_dir() or "/" in name:
        raise InputError("race", name, f"there is no {FILE} in that folder", "docs/speedrun.md says what a race holds")
    raise InputError("race", name, "there is no race of that name", did_you_mean(name, known))


def load(name: str, *, data: Path | None = None, changes: Mapping[str, Any] | None = None) -> Race:
    """The race of that name or folder, its shards (prepared or not yet) below `data`/<shards' name>.

    `changes` replace keys of race.toml, checked alike. Raises InputError.
    """
    folder = find(name)
    rules = build(Rules, {**read_toml(folder / FILE), **(changes or {})}, f"{FILE}: ")
    if rules.name != folder.name:
        raise InputError(f"{FILE}: name", rules.name, f"it must be the folder's name, {folder.name}")
    _check(rules)
    prepared = (data or default_folder("races")) / rules.data
    return Race(folder=folder, prepared=prepared, **{field.name: getattr(rules, field.name) for field in fields(Rules)})


def _check(rules: Rules) -> None:
    for line in rules.constants:
        constant(line)
    for key in ("train_files", "validation_files", "data"):
        value = getattr(rules, key)
        if not value or "/" in value or value.startswith("."):
            raise InputError(f"{FILE}: {key}", value, "it must be the name of files in one folder")
    if rules.processes > rules.cores and rules.device == "cpu":
        remedy = "lower processes or raise cores"
        raise InputError(f"{FILE}: processes", rules.processes, f"there are only {rules.cores} cores for them", remedy)
