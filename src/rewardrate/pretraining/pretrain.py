"""Supervised training on the corpus: makes `tiny` from nothing, or gives any open model a short warm start.

    loss = sum_t weight_t * -log pi(token_t | before) / sum_t weight_t

with weight 1 in answers and `prompt_weight` in prompts.

The same config and seed give the same batches in the same order, on any number of processes.
"""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rewardrate import config as configs
from rewardrate.config import AtLeast, Between
from rewardrate.errors import InputError
from rewardrate.pretraining import race_corpus
from rewardrate.pretraining.corpus.batches import PIECE, Form, Reading, TokenBatch, batches, sample_texts
from rewardrate.pretraining.corpus.examples import Corpus
from rewardrate.pretraining.corpus.tokenizer import save_tokenizer, train_tokenizer
from rewardrate.pretraining.race_corpus import RaceCorpus

if TYPE_CHECKING:
    import torch

TOKENIZER_SEED = 99  # of the texts that the tokenizer learns from: not those that the model sees first
FREE = ("workers", "device", "checkpoint_steps", "stop_after", "keep", "out")  # may change when training resumes
WEIGHTS, OPTIMISER, STATE = "model.safetensors", "optimizer.safetensors", "state.json"


@dataclass(frozen=True)
class Shape:
    """The network of a new model: a Llama of a few million parameters, input and output embeddings tied."""

    vocabulary: Annotated[int, AtLeast(300)] = 2048
    "Tokens that the tokenizer knows."
    layers: Annotated[int, AtLeast(1)] = 6
    "Blocks of attention and gated layer."
    width: Annotated[int, AtLeast(16)] = 256
    "Numbers that stand for a token between layers."
    hidden: Annotated[int, AtLeast(16)] = 704
    "Width of the gated layer in each block."
    heads: Annotated[int, AtLeast(1)] = 8
    "Attention heads of a layer."
    key_value_heads: Annotated[int, AtLeast(1)] = 4
    "Heads of keys and values, each shared by several attention heads."
    context: Annotated[int, AtLeast(64)] = 1536
    "The longest prompt with its reply, in tokens."
    texts: Annotated[int, AtLeast(100)] = 10_000
    "Examples that the tokenizer learns from."


@dataclass(frozen=True)
class Pretraining:
    """One supervised run."""

    out: str = "runs/pretrain"
    "Folder for the model, its tokenizer and the checkpoints."
    model: str = ""
    "A model to continue from: a folder, a .gguf file or a Hugging Face name; empty makes a new one."
    form: Form = "compact"
    "Which prompts: compact (for tiny), or full with the model's own chat template."
    steps: Annotated[int, AtLeast(1)] = 2200
    "Updates."
    batch_tokens: Annotated[int, AtLeast(64)] = 131_072
    "Places in one batch, padding included."
    accumulate: Annotated[int, AtLeast(1)] = 1
    "Batches that make one step."
    learning_rate: Annotated[float, AtLeast(0)] = 2e-3
    "AdamW step after the warm-up."
    warmup_steps: Annotated[int, AtLeast(0)] = 100
    "Steps in which the learning rate rises from 0."
    final_share: Annotated[float, Between(0, 1)] = 0.02
    "What is left of the learning rate at the end (cosine)."
    weight_decay: Annotated[float, AtLeast(0)] = 0.1
    "AdamW's decoupled decay."
    clip: Annotated[float, AtLeast(0)] = 1.0
    "Largest norm of a gradient."
    prompt_weight: Annotated[float, Between(0, 1)] = 0.0
    "Weight of prompt tokens in the loss. Above 0 a model also learns to continue a prompt instead of answering it."
    window: Annotated[int, AtLeast(PIECE)] = 32 * PIECE
    "Examples among which those of like length share a batch."
    seed: Annotated[int, AtLeast(0)] = 0
    "Of the weights and of the corpus."
    workers: Annotated[int, AtLeast(0)] = 0
    "Processes that write the corpus; 0 writes it in this one."
    device: Literal["auto", "cpu", "cuda"] = "auto"
    "auto: the GPU if there is one."
    checkpoint_steps: Annotated[int, AtLeast(0)] = 0
    "Write a checkpoint every so many steps; 0 writes none. A run whose folder holds one resumes from it."
    stop_after: Annotated[int, AtLeast(0)] = 0
    "End after so many steps, with the learning rate as `steps` has it there: an under-trained model. 0: all of them."
    keep: tuple[Annotated[int, AtLeast(1)], ...] = ()
    "Write the model as it is after each of these steps too, to `out`/steps/NUMBER."
    corpus: Corpus = field(default_factory=Corpus)
    race: RaceCorpus | None = None
    "Learn the catalogue of a race instead of the corpus of scripts."
    shape: Shape = field(default_factory=Shape)


@dataclass(frozen=True)
class PretrainingStep:
    """What one step came to."""

    step: int
    loss: float
    "Mean over answer tokens."
    tokens: int
    "Tokens seen so far, padding not counted."
    learning_rate: float
    seconds: float
    "Since the run began."


def pretrain(config: Pretraining, on_step: Callable[[PretrainingStep], None] | None = None) -> Path:
    """Train and write the model; gives its folder. Raises InputError when the model or device cannot be had."""
    import torch

    out = Path(config.out)
    device = _device(config)
    torch.manual_seed(config.seed)
    model, tokenizer = _model(config, out)
    model.to(device).train()
    optimiser = torch.optim.AdamW(
        _groups(model, config), lr=config.learning_rate, betas=(0.9, 0.95), fused=device.type == "cuda"
    )
    done, tokens = _resume(config, out, model, optimiser)
    context = _context(config, model)
    reading = Reading(
        corpus=config.corpus,
        seed=config.seed,
        tokenizer=str(out),
        form=config.form,
        context=context,
        pieces=config.window // PIECE,
    )
    stream = _stream(config, reading)
    began = time.perf_counter()
    last = min(config.steps, config.stop_after or config.steps)
    try:
        for number, group in islice(enumerate(_grouped(stream, config.accumulate)), done, max(done, last)):
            rate = _set_rate(optimiser, config, number)
            loss = _learn(model, optimiser, group, config, device)
            tokens += sum(int((batch.part > 0).sum()) for batch in group)
            if on_step is not None:
                on_step(
                    PretrainingStep(
                        step=number + 1,
                        loss=loss,
                        tokens=tokens,
                        learning_rate=rate,
                        seconds=time.perf_counter() - began,
                    )
                )
            if config.checkpoint_steps and (number + 1) % config.checkpoint_steps == 0:
                _checkpoint(out, model, optimiser, number + 1, tokens)
            if number + 1 in config.keep:
                _keep(model, tokenizer, out / "steps" / f"{number + 1:06d}")
    finally:
        stream.close()  # type: ignore[attr-defined]
    save_model(model, tokenizer, out, torch.bfloat16)
    return out


def _stream(config: Pretraining, reading: Reading) -> Iterator[TokenBatch]:
    if config.race is not None:
        return race_corpus.batches(config.race, reading, config.batch_tokens, config.workers)
    return batches(reading, config.batch_tokens, config.workers)


def new_model(shape: Shape, pad: int, end: int) -> Any:
    """A fresh Llama of that shape."""
    from transformers import LlamaConfig, LlamaForCausalLM

    if shape.width % shape.heads or shape.heads % shape.key_value_heads:
        rule = "heads must divide width, and key_value_heads must divide heads"
        raise InputError("shape.heads", shape.heads, rule, "for example width 256, heads 8, key_value_heads 4")
    make: Any = LlamaForCausalLM
    return make(
        LlamaConfig(
            vocab_size=shape.vocabulary,
            hidden_size=shape.width,
            intermediate_size=shape.hidden,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.key_value_heads,
            max_position_embeddings=shape.context,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=end,
            pad_token_id=pad,
            initializer_range=0.02,
        )
    )


def save_model(model: Any, tokenizer: Any, folder: Path, dtype: torch.dtype | None = None) -> None:
    """Weights (safetensors, in `dtype`), config and tokenizer, as from_pretrained reads them."""
    import copy

    from rewardrate.policies.models import quiet

    kept = model if dtype is None else copy.deepcopy(model).to("cpu").to(dtype)
    with quiet():
        kept.save_pretrained(str(folder))
    save_tokenizer(tokenizer, folder)


def _keep(model: Any, tokenizer: Any, folder: Path) -> None:
    """The model as it is now, whole or not at all: somebody may be waiting for the folder."""
    import torch

    fresh = folder.with_name(f".{folder.name}")
    save_model(model, tokenizer, fresh, torch.bfloat16)
    if folder.exists():  # of a run that was stopped after it and resumes from an earlier checkpoint
        shutil.rmtree(folder)
    fresh.rename(folder)


def loss_of(model: Any, batch: TokenBatch, prompt_weight: float, device: torch.device) -> tuple[Any, Any, Any]:
    """Weighted sum of -log pi, the sum of the weights, and the sum over answer tokens alone.

    Only places that count reach the output layer: with a vocabulary of 150,000 that is where the memory goes.
    """
    import torch
    from torch.nn.functional import cross_entropy

    tokens = torch.from_numpy(batch.tokens).to(device=device, dtype=torch.long)
    part = torch.from_numpy(batch.part).to(device)[:, 1:]
    weight = (part == 2).float() + prompt_weight * (part == 1).float()
    counts = weight > 0
    hidden = model.get_decoder()(input_ids=tokens, use_cache=False).last_hidden_state[:, :-1][counts]
    logits = model.get_output_embeddings()(hidden).float()
    each = cross_entropy(logits, tokens[:, 1:][counts], reduction="none")
    weight, answer = weight[counts], (part == 2)[counts]
    return (each * weight).sum(), weight.sum(), each.detach()[answer].sum()


def _learn(model: Any, optimiser: Any, group: list[TokenBatch], config: Pretraining, device: torch.device) -> float:
    """One step on a group of batches. Gives the mean loss of answer tokens."""
    import torch

    answers = sum(int((batch.part == 2).sum()) for batch in group)
    prompts = sum(int((batch.part == 1).sum() - (batch.part[:, 0] == 1).sum()) for batch in group)
    total = answers + config.prompt_weight * prompts
    seen = torch.zeros((), device=device)
    optimiser.zero_grad(set_to_none=True)
    for batch in group:
        with torch.autocast(device.type, torch.bfloat16) if device.type == "cuda" else contextlib.nullcontext():
            summed, _, answer = loss_of(model, batch, config.prompt_weight, device)
        (summed / total).backward()
        seen += answer
    torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip or math.inf)
    optimiser.step()
    return float(seen) / answers


def _grouped(stream: Iterator[TokenBatch], size: int) -> Iterator[list[TokenBatch]]:
    while True:
        yield list(islice(stream, size))


def _device(config: Pretraining) -> torch.device:
    import torch

    there = torch.cuda.is_available()
    if config.device == "cuda" and not there:
        raise InputError("device", "cuda", "torch sees no NVIDIA GPU here", "use device=cpu, or auto")
    return torch.device("cuda" if there and config.device != "cpu" else "cpu")


def _model(config: Pretraining, out: Path) -> tuple[Any, Any]:
    """The model to train and its tokenizer, which is also written to `out` for the processes that encode."""
    from rewardrate.policies.models import load_model

    _same(config, out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "pretrain.toml").write_text(configs.dumps(config), encoding="utf-8")
    if not config.model:
        count = config.shape.texts
        texts = (
            sample_texts(config.corpus, TOKENIZER_SEED, count)
            if config.race is None
            else race_corpus.sample_texts(config.race, TOKENIZER_SEED, count)
        )
        tokenizer = train_tokenizer(texts, config.shape.vocabulary, config.shape.context)
        save_tokenizer(tokenizer, out)
        return new_model(config.shape, tokenizer.pad_token_id, tokenizer.eos_token_id), tokenizer
    language = load_model(config.model, device="cpu")
    model, tokenizer = language.model, language.tokenizer
    if tokenizer.eos_token_id is None or not tokenizer.chat_template:
        rule = "its tokenizer has no chat template or no end token"
        raise InputError("model", config.model, rule, "choose an instruct model")
    save_tokenizer(tokenizer, out)
    return model, tokenizer


def _context(config: Pretraining, model: Any) -> int:
    return min(config.shape.context if not config.model else 4096, int(model.config.max_position_embeddings))


def _groups(model: Any, config: Pretraining) -> list[dict[str, Any]]:
    """Matrices decay, norms and biases do not."""
    matrices = [one for one in model.parameters() if one.requires_grad and one.dim() >= 2]
    others = [one for one in model.parameters() if one.requires_grad and one.dim() < 2]
    return [{"params": matrices, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]


def _set_rate(optimiser: Any, config: Pretraining, step: int) -> float:
    """Linear warm-up, then a cosine down to `final_share`."""
    rate = config.learning_rate * min(1.0, (step + 1) / max(1, config.warmup_steps))
    if step >= config.warmup_steps:
        way = (step - config.warmup_steps) / max(1, config.steps - config.warmup_steps)
        share = config.final_share + (1 - config.final_share) * 0.5 * (1 + math.cos(math.pi * way))
        rate = config.learning_rate * share
    for group in optimiser.param_groups:
        group["lr"] = rate
    return rate


# ---------------------------------------------------------------- checkpoints


def _checkpoint(out: Path, model: Any, optimiser: Any, step: int, tokens: int) -> None:
    """Everything that resuming needs, as safetensors and JSON; the state file comes last and makes it count."""
    from safetensors.torch import save_file

    folder = out / "checkpoints" / f"{step:06d}"
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: one.detach().cpu().contiguous() for name, one in model.named_parameters()}
    save_file(weights, str(folder / WEIGHTS))
    slots = {
        f"{index}/{name}": value.detach().cpu().clone()
        for index, slot in optimiser.state_dict()["state"].items()
        for name, value in slot.items()
    }
    save_file(slots, str(folder / OPTIMISER))
    (folder / STATE).write_text(json.dumps({"step": step, "tokens": tokens}), encoding="utf-8")


def _same(config: Pretraining, out: Path) -> None:
    """Refuse checkpoints of other settings; the first that differs is named. Where it runs may change."""
    if not config.checkpoint_steps or not any((out / "checkpoints").glob(f"*/{STATE}")):
        return
    kept = configs.build(Pretraining, configs.read_toml(out / "pretrain.toml"))
    begun, mine = (configs.leaves(asdict(one)) for one in (kept, config))
    for name in sorted(begun.keys() | mine.keys()):
        if name not in FREE and begun.get(name) != mine.get(name):
            rule = f"the training in {out} was begun with {begun.get(name)!r}"
            raise InputError(name, mine.get(name), rule, "give the same settings as before, or another --out")


def _resume(config: Pretraining, out: Path, model: Any, optimiser: Any) -> tuple[int, int]:
    """Continue from the newest whole checkpoint, if checkpoints are asked for and one is there."""
    import torch
    from safetensors.torch import load_file

    states = sorted((out / "checkpoints").glob(f"*/{STATE}")) if config.checkpoint_steps else []
    if not states:
        return 0, 0
    folder = states[-1].parent
    state = json.loads(states[-1].read_text(encoding="utf-8"))
    weights = load_file(str(folder / WEIGHTS))
    with torch.no_grad():
        for name, one in model.named_parameters():
            one.copy_(weights[name])
    slots: dict[int, dict[str, Any]] = {}
    for name, value in load_file(str(folder / OPTIMISER)).items():
        index, _, slot = name.partition("/")
        slots.setdefault(int(index), {})[slot] = value
    optimiser.load_state_dict({"state": slots, "param_groups": optimiser.state_dict()["param_groups"]})
    return int(state["step"]), int(state["tokens"])
