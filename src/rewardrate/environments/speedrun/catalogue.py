"""A catalogue of changes to our own train_gpt.py: mechanisms, settings and mistakes, each as a whole reply.

It is what a small model is pre-trained on, so that it writes the form of the race before it learns what pays; and a
stand-in for a policy in tests. An entry finds its place in whatever parent it is given (lines that match a pattern), so
entries can follow one another; where its place is gone it has nothing to say.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from rewardrate.environments.speedrun.edits import Block, EditRefused, replaced

Kind = Literal["mechanism", "setting", "mistake"]
Lines = tuple[tuple[str, str], ...]
"Patterns of whole lines, and what takes their place: \\g<1> is what the pattern caught, {x} the value drawn."


@dataclass(frozen=True)
class Entry:
    """One kind of change, with the values it may take."""

    name: str
    kind: Kind
    diagnosis: str
    change: str
    "First line of the CHANGE section: what the edits do."
    risk: str
    lines: Lines
    values: tuple[str, ...] = ("",)
    multiple: int = 0
    "Above 0, values are factors of the number that stands in the line `NAME = number`, rounded to multiples of this."

    def suggest(self, parent: str, value: str) -> Suggestion | None:
        """The change with one of the values; None where a line that it needs is not there once, or nothing changes."""
        found = []
        for pattern, replacement in self.lines:
            places = list(re.finditer(rf"^{pattern}$", parent, re.MULTILINE))
            if len(places) != 1 or parent.count(places[0][0]) != 1:
                return None
            if self.multiple:
                value = self._times(places[0][0], float(value))
            made = places[0].expand(replacement.replace("{x}", value))
            if made == places[0][0]:
                return None
            found.append(Block(places[0][0], made))
        return Suggestion(self, value, tuple(found))

    def _times(self, line: str, factor: float) -> str:
        """The number in a line `NAME = number`, times the factor."""
        now = float(line.partition("= ")[2].split()[0])
        return str(max(1, round(now * factor / self.multiple)) * self.multiple)


@dataclass(frozen=True)
class Suggestion:
    """An entry with its value drawn, for one parent."""

    entry: Entry
    value: str
    "As it is written into the script."
    blocks: tuple[Block, ...]

    def reply(self) -> str:
        """What a policy would write."""
        edits = "\n".join(written(block) for block in self.blocks)
        change = self.entry.change.replace("{x}", self.value)
        return f"DIAGNOSIS\n{self.entry.diagnosis}\n\nCHANGE\n{change}\n{edits}\n\nRISK\n{self.entry.risk}\n"

    def code(self, parent: str) -> str:
        """The parent with the edits; EditRefused if they do not fit."""
        return replaced(parent, list(self.blocks))


def written(block: Block) -> str:
    """A block as text."""
    return f"<<<<<<< SEARCH\n{block.search}\n=======\n{block.replace}\n>>>>>>> REPLACE"


def suggest(random: Random, parent: str, kinds: Sequence[Kind] = ("mechanism", "setting")) -> Suggestion | None:
    """A change of one of these kinds that fits the parent; None if none does."""
    entries = [entry for entry in CATALOGUE if entry.kind in kinds]
    for entry in random.sample(entries, len(entries)):
        found = entry.suggest(parent, random.choice(entry.values))
        if found is not None:
            return found
    return None


def descend(random: Random, parent: str, changes: int) -> str:
    """A script that has been through some changes already."""
    for _ in range(changes):
        found = suggest(random, parent)
        if found is not None:
            try:
                parent = found.code(parent)
            except EditRefused:
                continue
    return parent


def _constant(name: str) -> str:
    return rf"({name} = )[\d.]+(.*)"


def _setting(name: str, values: Sequence[str], diagnosis: str, risk: str, multiple: int = 0) -> Entry:
    line = ((_constant(name), r"\g<1>{x}\g<2>"),)
    return Entry(
        name=name.lower(),
        kind="setting",
        diagnosis=diagnosis,
        change=f"Set {name} to {{x}}.",
        risk=risk,
        lines=line,
        values=tuple(values),
        multiple=multiple,
    )


FORWARD = r"        x = norm\(self\.embedding\(tokens\)\)"
HEAD = r"        return self\.head\(norm\(x\)\)\.float\(\)"
RESIDUAL = r"        x = x \+ self\.attention\(norm\(x\)\)\n        return x \+ self\.mlp\(norm\(x\)\)"
LOOP = r"        for block in self\.blocks:\n            x = block\(x\)"
SDPA = r"(        y = F\.scaled_dot_product_attention\(q, k, v, is_causal=True)\)"
ACTIVATION = r"        return self\.down\(F\.relu\(self\.up\(x\)\)\.square\(\)\)"
UPDATE = (
    r"(                parameter\.add_\(orthogonal\(update, NEWTON_SCHULZ_STEPS\), alpha=-group\[\"lr\"\] \* scale\))"
)
SLOW = "Most seconds go into training steps, so fewer or cheaper steps to the same loss are what pays."
DEPTH = "The loss falls slowly in the last third of the steps: the model, not the clock, is the limit."

MECHANISMS = (
    Entry(
        name="softcap",
        kind="mechanism",
        diagnosis=f"{DEPTH} The head's logits grow without bound and the cool-down spends steps on taming them.",
        change="Bend the logits with {x} * tanh(logits / {x}).",
        risk="tanh costs a pass over the logits; the loss must see the bent ones.",
        lines=((HEAD, r"        return {x} * torch.tanh(self.head(norm(x)).float() / {x})"),),
        values=("10", "15", "20", "30"),
    ),
    Entry(
        name="parallel block",
        kind="mechanism",
        diagnosis=f"{SLOW} Every block normalises twice and waits for attention before the MLP starts.",
        change="Let attention and MLP read the same normalised input, side by side.",
        risk="The MLP no longer sees what attention found in the same block.",
        lines=((RESIDUAL, r"        y = norm(x)\n        return x + self.attention(y) + self.mlp(y)"),),
    ),
    Entry(
        name="embedding skip",
        kind="mechanism",
        diagnosis=f"{DEPTH} Later blocks have to rebuild what the embedding said.",
        change="Give every block {x} of the embedding again.",
        risk="Too large a share drowns what the blocks computed.",
        lines=(
            (LOOP, r"        first = x\n        for block in self.blocks:\n            x = block(x + {x} * first)"),
        ),
        values=("0.1", "0.2", "0.5"),
    ),
    Entry(
        name="previous token",
        kind="mechanism",
        diagnosis=f"{DEPTH} The first block spends a head on looking one token back.",
        change="Add {x} of the embedding of the token before to every position.",
        risk="The first position has no token before it: it is padded with zeros.",
        lines=(
            (
                FORWARD,
                r"        x = self.embedding(tokens)\n        x = norm(x + {x} * F.pad(x, (0, 0, 1, -1)))",
            ),
        ),
        values=("0.3", "0.5", "1.0"),
    ),
    Entry(
        name="activation",
        kind="mechanism",
        diagnosis=f"{DEPTH} The squared ReLU of the MLP passes no gradient to half of its channels.",
        change="Use {x} in the MLP.",
        risk="A smooth activation costs more than a ReLU on a CPU.",
        lines=((ACTIVATION, r"        return self.down(F.{x}(self.up(x)))"),),
        values=("gelu", "silu", "relu", "leaky_relu"),
    ),
    Entry(
        name="attention scale",
        kind="mechanism",
        diagnosis=f"{DEPTH} Queries and keys are normalised, "
        "so the attention logits are small and attention stays flat.",
        change="Scale the attention logits by {x}.",
        risk="Too sharp attention at the start slows learning.",
        lines=((SDPA, r"\g<1>, scale={x})"),),
        values=("0.12", "0.2", "0.3", "0.5"),
    ),
    Entry(
        name="cautious decay",
        kind="mechanism",
        diagnosis=f"{DEPTH} The matrices grow, and with them the step that changes their direction.",
        change="Decay a weight by {x} of the learning rate where update and weight agree in sign.",
        risk="The mask is one more pass over the matrices.",
        lines=(
            (
                UPDATE,
                r'                parameter.mul_(1 - {x} * group["lr"] * (update * parameter > 0))\n\g<1>',
            ),
        ),
        values=("0.01", "0.1", "1.0"),
    ),
    Entry(
        name="normalised update",
        kind="mechanism",
        diagnosis=f"{SLOW} Five Newton-Schulz iterations a matrix are a large part of a step on a CPU.",
        change="Divide the update by its row norms instead of making it orthogonal.",
        risk="Rows are no longer spread over all directions; the learning rate may be off.",
        lines=(
            (
                UPDATE,
                "                update = update / (update.norm(dim=1, keepdim=True) + 1e-7)\n"
                '                parameter.add_(update, alpha=-group["lr"] * scale)',
            ),
        ),
    ),
)
SETTINGS = (
    replace(
        _setting("TRAIN_STEPS", ("0.65", "0.75", "0.8", "0.85", "0.9"), SLOW, "Too few steps miss the target.", 5),
        name="fewer steps",
    ),
    replace(
        _setting("TRAIN_STEPS", ("1.05", "1.1", "1.2"), DEPTH, "Every further step costs its seconds.", 5),
        name="more steps",
    ),
    _setting("COOLDOWN", ("0.3", "0.4", "0.6", "0.7", "0.8"), DEPTH, "A long cool-down learns less before it."),
    _setting("MUON_RATE", ("0.005", "0.015", "0.02", "0.03"), DEPTH, "Too large a rate diverges."),
    _setting("EMBEDDING_RATE", ("0.02", "0.03", "0.08", "0.1"), DEPTH, "Rare tokens get noisy embeddings."),
    _setting("HEAD_RATE", ("0.002", "0.005", "0.015", "0.02"), DEPTH, "The head may overshoot."),
    _setting("NEWTON_SCHULZ_STEPS", ("2", "3", "4"), SLOW, "The update is less orthogonal."),
    _setting("LAYERS", ("0.5", "0.75", "1.25"), SLOW, "Fewer layers lose depth.", 1),
    _setting("WIDTH", ("0.75", "1.25", "1.5"), DEPTH, "WIDTH must divide by HEADS.", 32),
    _setting("BATCH", ("0.5", "0.75", "1.5", "2"), SLOW, "BATCH must divide by the number of processes.", 8),
    _setting("MOMENTUM", ("0.9", "0.92", "0.97"), DEPTH, "A long memory answers late."),
)
MISTAKES = (
    Entry(
        name="unknown name",
        kind="mistake",
        diagnosis=DEPTH,
        change="Bend the logits.",
        risk="None.",
        lines=((HEAD, r"        return softcap(self.head(norm(x)).float())"),),
    ),
    Entry(
        name="wrong shape",
        kind="mistake",
        diagnosis=SLOW,
        change="Use {x} heads.",
        risk="WIDTH must divide by HEADS.",
        lines=((_constant("HEADS"), r"\g<1>{x}\g<2>"),),
        values=("3", "5", "7"),
    ),
    Entry(
        name="diverging rate",
        kind="mistake",
        diagnosis=SLOW,
        change="Learn faster: MUON_RATE {x}.",
        risk="It may diverge.",
        lines=((_constant("MUON_RATE"), r"\g<1>{x}\g<2>"),),
        values=("1.0", "5.0"),
    ),
    Entry(
        name="lost bracket",
        kind="mistake",
        diagnosis=DEPTH,
        change="Scale the logits.",
        risk="None.",
        lines=((HEAD, r"        return self.head(norm(x).float()"),),
    ),
    Entry(
        name="fewer validations",
        kind="mistake",
        diagnosis="Every validation pass costs about a second.",
        change="Validate every {x} steps.",
        risk="The rules fix the cadence.",
        lines=((_constant("VAL_EVERY"), r"\g<1>{x}\g<2>"),),
        values=("250", "500"),
    ),
    Entry(
        name="no reduction",
        kind="mistake",
        diagnosis="The all-reduce of the validation loss waits for the slowest process.",
        change="Leave out the reduction of the validation loss.",
        risk="Each process sees its share only.",
        lines=((r"    dist\.all_reduce\(total\)", r"    total = total * world"),),
    ),
)
CATALOGUE: tuple[Entry, ...] = (*MECHANISMS, *SETTINGS, *MISTAKES)
