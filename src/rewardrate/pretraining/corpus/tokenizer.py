"""The tokenizer of `tiny`: byte-level BPE learnt from the corpus.

A word is cut the same way wherever it stands: letters, single digits, and runs of signs and spaces never share a token,
so the column `price` of the prompt is copied into `train["price"]` token by token. A line feed takes the indentation
behind it along.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

PAD, END = "<|pad|>", "<|end|>"
PIECES = r"\n *|[A-Za-z]+|[0-9]|[^A-Za-z0-9\n]+"
TEMPLATE = (
    "{% for message in messages %}{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}<|end|>{% endif %}{% endfor %}"
)
"The text of the chat as it is; an answer is closed by the end token."


def train_tokenizer(texts: Iterable[str], vocabulary: int, context: int) -> Any:
    """A Hugging Face tokenizer of that many tokens. Deterministic for the same texts."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    core.train_from_iterator(texts, trainer)
    make: Any = PreTrainedTokenizerFast
    return make(
        tokenizer_object=core,
        pad_token=PAD,
        eos_token=END,
        chat_template=TEMPLATE,
        model_max_length=context,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )


def save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Write it where AutoTokenizer finds it."""
    tokenizer.save_pretrained(str(folder))
