"""Small random language models, made here; one thread, so that sums have one order."""

import sys
from types import SimpleNamespace

import pytest

VOCABULARY = 61


@pytest.fixture(autouse=True)
def _one_thread():
    torch = sys.modules.get("torch")  # tests that need none do not load it
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def libraries():
    reason = "needs the agent extra"
    return pytest.importorskip("torch", reason=reason), pytest.importorskip("transformers", reason=reason)


def llama(seed=0, **changes):
    """A two-layer Llama with grouped heads and random weights, far enough from uniform to have opinions."""
    shape = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "tie_word_embeddings": True,
        "initializer_range": 0.3,
    } | changes
    torch, transformers = libraries()
    torch.manual_seed(seed)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape))
    return model.eval()


def qwen(seed=0):
    """The same size in Qwen's architecture: biases, untied output."""
    torch, transformers = libraries()
    torch.manual_seed(seed)
    config = transformers.Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=1,
        max_position_embeddings=256,
        tie_word_embeddings=False,
        initializer_range=0.3,
    )
    return transformers.Qwen2ForCausalLM(config).eval()


SPECIAL = ["<pad>", "<|im_start|>", "<|im_end|>"]
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789\n .,:;()=[]'+-*/<>_#{}"
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tokenizer(template=TEMPLATE):
    """One token a letter, and the marks of a chat."""
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *LETTERS])}
    assert len(vocabulary) == VOCABULARY
    core = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, [], unk_token="_"))
    core.decoder = tokenizers.decoders.Fuse()
    core.add_special_tokens(SPECIAL)
    _, transformers = libraries()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|im_end|>", pad_token="<pad>")
    fast.chat_template = template
    return fast


def language(seed=0, template=TEMPLATE, **changes):
    """A whole language model: network, tokenizer and end of turn."""
    from rewardrate.policies.models import LanguageModel, turn_ends

    model, letters = llama(seed, **changes), tokenizer(template)
    return LanguageModel("test", model, letters, turn_ends(model, letters))


@pytest.fixture(scope="session")
def build():
    return SimpleNamespace(llama=llama, qwen=qwen, vocabulary=VOCABULARY, tokenizer=tokenizer, language=language)
