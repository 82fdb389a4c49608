"""Language models by name: ours, a folder, a GGUF file, or a Hugging Face id. Weights only, never code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from rewardrate.attempt import Message
from rewardrate.errors import InputError, MissingExtra
from rewardrate.policies.control_tokens import ControlTokens, well_formed
from rewardrate.policies.network import silence_dropout
from rewardrate.policies.settings import SHIPPED, LoraSettings

PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "<|endoftext|>")


@dataclass(frozen=True)
class LanguageModel:
    """A model, its tokenizer, and how the two hold a chat."""

    name: str
    model: Any
    tokenizer: Any
    stops: tuple[int, ...]
    "Tokens that end a turn."

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """Tokens of a chat up to where the reply begins: the tokenizer's chat template, or else the plain contents.

        What a message says is text: only the template writes control tokens (`control_tokens`).
        """
        if not messages:
            raise InputError("messages", messages, "a prompt needs at least one message")
        if not self.tokenizer.chat_template:
            text = "\n\n".join(message["content"] for message in messages) + "\n"
            return self._control.plain(text, add_special_tokens=True)
        try:
            return self._template(messages)
        except Exception as error:  # a template may raise what it likes; most often it knows no system turn
            first, *rest = messages
            if first["role"] != "system" or not rest:
                raise InputError("messages", [m["role"] for m in messages], f"the chat template: {error}") from None
            merged = {**rest[0], "content": f"{first['content']}\n\n{rest[0]['content']}"}
            return self._template([merged, *rest[1:]])

    def _template(self, messages: Sequence[Message]) -> list[int]:
        contents = [well_formed(message["content"]) for message in messages]
        marks = self._control.marks("".join(contents))
        chat = [
            {**message, "content": self._control.hidden(content, marks)}
            for message, content in zip(messages, contents, strict=True)
        ]
        options = {"add_generation_prompt": True, "enable_thinking": False}
        if marks:
            return self._control.tokens(self.tokenizer.apply_chat_template(chat, tokenize=False, **options), marks)
        return list(self.tokenizer.apply_chat_template(chat, tokenize=True, return_dict=False, **options))

    @cached_property
    def _control(self) -> ControlTokens:
        return ControlTokens(self.tokenizer)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of a reply, without the tokens that only mark turns."""
        options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
        return str(self.tokenizer.decode(list(tokens), **options))

    def count(self, text: str) -> int:
        """Tokens of a text."""
        return len(self._control.plain(text))


def load_model(name: str, *, device: str = "auto", lora: LoraSettings | None = None) -> LanguageModel:
    """The model `name`, ready to sample and to train: fp32 (under LoRA on a GPU the frozen part is bf16).

    Raises InputError for a name that leads nowhere, for weights that are pickled (they could run code) and for models
    that bring code of their own; MissingExtra when GGUF or LoRA needs a package that is not here.
    """
    place = torch.device(usable_device(device))
    source, file = locate(name)
    frozen_half = lora is not None and place.type == "cuda"
    with quiet():
        model, tokenizer = _load(name, source, file, torch.bfloat16 if frozen_half else torch.float32)
    model = model.to(place).eval()
    silence_dropout(model)
    stops = turn_ends(model, tokenizer)
    if lora is not None:
        model = add_lora(model, lora)
    return LanguageModel(name, model, tokenizer, stops)


def locate(name: str) -> tuple[str, str | None]:
    """Folder or hub id, and the GGUF file in it if it is one. Raises InputError without touching the network."""
    if name in SHIPPED:
        if not any(SHIPPED[name].glob("*.safetensors")):
            remedy = f"they belong in {SHIPPED[name]}"
            raise InputError("model", name, "its weights are not part of this installation", remedy)
        return str(SHIPPED[name]), None
    path = Path(name).expanduser()
    if name.endswith(PICKLES):
        raise InputError("model", name, "pickled weights can run code and are refused", "convert them to safetensors")
    if name.endswith(".gguf"):
        if not path.exists() and len(Path(name).parts) == 3 and not path.is_absolute():
            return str(Path(name).parent), path.name  # owner/repository/file.gguf on the hub
        if not path.is_file():
            raise InputError("model", name, "there is no such file")
        return str(path.parent), path.name
    if not path.is_dir():
        if path.exists() or name.count("/") != 1 or name.startswith((".", "/", "~")):
            raise InputError(
                "model", name, "it must be tiny, tiny-race, a folder, a .gguf file or a hub id like owner/name"
            )
        return name, None
    if any(path.glob("*.safetensors")):
        return str(path), None
    quantised = sorted(path.glob("*.gguf"))
    if len(quantised) == 1:
        return str(path), quantised[0].name
    if quantised:
        raise InputError("model", name, f"it holds {len(quantised)} GGUF files", "name the file itself")
    if any(found.suffix in PICKLES for found in path.iterdir()):
        raise InputError("model", name, "pickled weights can run code and are refused", "convert them to safetensors")
    raise InputError("model", name, "it holds no .safetensors and no .gguf file")


def _load(name: str, source: str, file: str | None, dtype: torch.dtype) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    options: dict[str, Any] = {"trust_remote_code": False}
    weights: dict[str, Any] = {"use_safetensors": True, "dtype": dtype}
    if file is not None:
        options["gguf_file"] = file
        weights = {"dtype": dtype} | _gguf_options()
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
        model, report = AutoModelForCausalLM.from_pretrained(source, output_loading_info=True, **options, **weights)
    except Exception as error:  # foreign files can fail in any way
        text = " ".join(str(error).split())
        raise InputError("model", name, f"it cannot be loaded ({text[:300]})") from None
    missing = sorted(report["missing_keys"]) + sorted(str(key) for key in report["mismatched_keys"])
    if missing:  # the library would fill them with random numbers
        raise InputError("model", name, f"{len(missing)} of its weights are missing or misshapen, first {missing[0]}")
    if file is not None:
        tie_copies(model)
    return model, tokenizer


def _gguf_options() -> dict[str, Any]:
    try:
        import accelerate  # noqa: F401
        import gguf  # noqa: F401
    except ImportError:
        raise MissingExtra("a GGUF model", "gguf and accelerate", "agent") from None
    import transformers

    config = getattr(transformers, "GgufConfig", None)  # versions without it always load dense weights
    return {"quantization_config": config(dequantize=True)} if config is not None else {}


def tie_copies(model: Any) -> None:
    """Make input and output embedding one array again where a GGUF file held two roundings of it; the output's stays.

    They count as copies when they point the same way (cosine above 0.98).
    """
    inner, outer = model.get_input_embeddings(), model.get_output_embeddings()
    if outer is None or inner.weight is outer.weight or inner.weight.shape != outer.weight.shape:
        return
    cosine = torch.nn.functional.cosine_similarity(inner.weight.flatten(), outer.weight.flatten(), dim=0)
    if float(cosine.detach()) > 0.98:
        inner.weight = outer.weight
        model.config.tie_word_embeddings = True


def turn_ends(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """Every token that ends the model's turn: its own end tokens and the usual marks of chat formats it knows."""
    ends: set[int] = set()
    for source in (getattr(model, "generation_config", None), model.config, tokenizer):
        found = getattr(source, "eos_token_id", None)
        ends |= set(found) if isinstance(found, list | tuple) else ({found} if found is not None else set())
    known = tokenizer.get_added_vocab()
    return tuple(sorted(ends | {known[mark] for mark in TURN_ENDS if mark in known}))


def add_lora(model: Any, settings: LoraSettings) -> Any:
    """The model with trainable low-rank matrices beside every linear layer; everything else is frozen.

    They begin the same every time: both arms start alike, and a resumed run finds the base it began with.
    """
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise MissingExtra("LoRA", "peft", "agent") from None
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        target_modules="all-linear",
        lora_dropout=0.0,
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return get_peft_model(model, config)


def usable_device(device: str) -> str:
    """cpu, cuda or cuda:N; InputError where it is none of them, or a GPU that is not here."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise InputError("device", device, "it must be auto, cpu or cuda")
    if device.startswith("cuda") and not torch.cuda.is_available():
        remedy = "give cpu (--set policy.device=cpu: slow for a large model), or train the recipe laptop"
        raise InputError("device", device, "no NVIDIA GPU is usable here", remedy)
    return device


@contextmanager
def quiet() -> Iterator[None]:
    """The library's progress bars off, and on again if they were."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
