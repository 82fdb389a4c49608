"""A learner on disk: safetensors for tensors, JSON for the rest, nothing that could run code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from rewardrate.errors import InputError
from rewardrate.policies.learner import Learner

FORMAT = 1
TENSORS, STATE = "policy.safetensors", "policy.json"
MOMENTS = ("exp_avg", "exp_avg_sq")


def save_learner(learner: Learner, folder: Path, more: dict[str, Any]) -> None:
    """Write weights, critic, both optimisers and the shuffle's random state; `more` goes into the JSON file."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, Tensor] = {}
    for part, network, optimiser in learner.parts():
        for name, parameter in _learning(network):
            tensors[f"{part}.{name}"] = parameter.detach().contiguous().cpu()
            state = optimiser.state.get(parameter, {})
            for moment in (*MOMENTS, "step"):
                if moment in state:
                    tensors[f"{part}.{name}:{moment}"] = state[moment].detach().contiguous().cpu()
    save_file(tensors, folder / TENSORS)
    shuffle = bytes(learner.shuffle.get_state().tolist()).hex()
    document = {"format": FORMAT, "shuffle": shuffle, **more}
    (folder / STATE).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def load_learner(learner: Learner, folder: Path, expected: dict[str, Any]) -> dict[str, Any]:
    """Continue from `save_learner`; returns the JSON document.

    Raises InputError, with nothing changed, when files are missing or broken, when a tensor is missing or has another
    shape, or when the document differs from `expected` in one of its keys.
    """
    document = read_state(folder, expected)
    try:
        tensors = load_file(folder / TENSORS)
        shuffle = torch.tensor(list(bytes.fromhex(document["shuffle"])), dtype=torch.uint8)
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        raise InputError("checkpoint", str(folder), f"it cannot be read ({error})") from None
    wanted = {
        f"{part}.{name}": parameter for part, network, _ in learner.parts() for name, parameter in _learning(network)
    }
    held = {key for key in tensors if ":" not in key}
    if held != set(wanted):
        odd = sorted(held ^ set(wanted))[0]
        raise InputError("checkpoint", str(folder), f"it does not fit this model and critic (tensor {odd})")
    for key, parameter in wanted.items():
        for name in (key, *(f"{key}:{moment}" for moment in MOMENTS)):
            if name in tensors and tensors[name].shape != parameter.shape:
                raise InputError("checkpoint", str(folder), f"tensor {name} has another shape")
    learner.shuffle.set_state(shuffle)
    _install(learner, tensors)
    return document


def read_state(folder: Path, expected: dict[str, Any]) -> dict[str, Any]:
    """The JSON document of a checkpoint, checked against `expected`. Raises InputError."""
    try:
        document = json.loads((folder / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError("checkpoint", str(folder), f"it cannot be read ({error})") from None
    if not isinstance(document, dict):
        raise InputError("checkpoint", str(folder), f"{STATE} must hold a table")
    for key, value in {"format": FORMAT, **expected}.items():
        if document.get(key) != value:
            rule = f"its {key} is {document.get(key)!r}, this policy's is {value!r}"
            raise InputError("checkpoint", str(folder), rule, "use the model it was made with")
    return document


def _install(learner: Learner, tensors: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for part, network, optimiser in learner.parts():
            optimiser.state.clear()
            for name, parameter in _learning(network):
                key = f"{part}.{name}"
                parameter.copy_(tensors[key])
                if f"{key}:step" not in tensors:
                    continue
                optimiser.state[parameter] = {
                    moment: tensors[f"{key}:{moment}"].to(parameter.device).clone() for moment in ("step", *MOMENTS)
                }


def fingerprint(model: Any) -> str:
    """A short name of the weights as they are, from the start of every tensor: tells one base model from another."""
    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        head = parameter.detach().flatten()[:256].float().cpu().contiguous()
        digest.update(f"{name} {tuple(parameter.shape)} ".encode())
        digest.update(head.numpy().tobytes())
    return digest.hexdigest()[:16]


def _learning(network: Any) -> Iterator[tuple[str, Tensor]]:
    yield from ((name, parameter) for name, parameter in network.named_parameters() if parameter.requires_grad)
