"""Models by name: what is found, what is refused, and how a chat becomes tokens."""

import sys

import pytest

torch = pytest.importorskip("torch", reason="needs the agent extra")
pytest.importorskip("transformers", reason="needs the agent extra")

from rewardrate.errors import InputError, MissingExtra  # noqa: E402
from rewardrate.policies import models  # noqa: E402
from rewardrate.policies.models import LoraSettings, load_model  # noqa: E402


@pytest.fixture
def folder(build, tmp_path):
    whole = tmp_path / "model"
    build.llama(eos_token_id=2).save_pretrained(whole)
    build.tokenizer().save_pretrained(whole)
    return whole


def test_a_folder_with_safetensors_loads_as_it_was_saved(build, folder):
    loaded = load_model(str(folder), device="cpu")
    for one, other in zip(loaded.model.parameters(), build.llama().parameters(), strict=True):
        assert torch.equal(one, other)
        assert one.dtype == torch.float32
    assert loaded.decode(loaded.tokenizer("print(1)").input_ids) == "print(1)"
    assert loaded.count("abc") == 3


def test_the_end_of_a_turn_is_known_from_config_tokenizer_and_chat_marks(folder):
    assert load_model(str(folder), device="cpu").stops == (2,)


def test_a_chat_follows_the_template_up_to_where_the_reply_begins(build):
    language = build.language()
    tokens = language.encode([{"role": "system", "content": "be brief"}, {"role": "user", "content": "go"}])
    text = language.tokenizer.decode(tokens)
    assert text == "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\ngo<|im_end|>\n<|im_start|>assistant\n"


def test_without_a_template_the_contents_follow_each_other(build):
    language = build.language(template=None)
    tokens = language.encode([{"role": "system", "content": "ab"}, {"role": "user", "content": "cd"}])
    assert language.tokenizer.decode(tokens) == "ab\n\ncd\n"


def test_a_template_that_knows_no_system_turn_gets_it_in_the_users(build):
    strict = "{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    language = build.language(template=strict + "{{ m['content'] }}{% endfor %}")
    tokens = language.encode([{"role": "system", "content": "ab"}, {"role": "user", "content": "cd"}])
    assert language.tokenizer.decode(tokens) == "ab\n\ncd"
    with pytest.raises(InputError, match="no system"):
        language.encode([{"role": "system", "content": "ab"}])


def test_an_empty_chat_is_refused(build):
    with pytest.raises(InputError, match="at least one message"):
        build.language().encode([])


@pytest.mark.parametrize("name", ["weights.bin", "model.pt", "a/b.pth", "x.ckpt", "y.pkl"])
def test_a_pickle_is_refused_by_name(name):
    with pytest.raises(InputError, match="can run code and are refused"):
        load_model(name)


def test_a_folder_of_pickles_is_refused_and_they_are_never_opened(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04cos\nsystem\n(S'touch owned'\ntR.")
    with pytest.raises(InputError, match="convert them to safetensors"):
        load_model(str(tmp_path))


def test_code_that_a_model_brings_is_never_run(folder):
    (folder / "evil.py").write_text("raise SystemExit('ran')")
    config = folder / "config.json"
    config.write_text(
        config.read_text().replace('"llama"', '"unheard_of"').replace("{", '{"auto_map": {"AutoConfig": "evil.X"},', 1)
    )
    with pytest.raises(InputError, match="cannot be loaded"):
        load_model(str(folder), device="cpu")


def test_broken_weights_and_configs_are_one_line(folder):
    (folder / "model.safetensors").write_bytes(b"not tensors at all")
    with pytest.raises(InputError, match="cannot be loaded"):
        load_model(str(folder), device="cpu")


def test_weights_that_are_missing_are_not_filled_with_random_numbers(folder):
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match="1 of its weights are missing"):
        load_model(str(folder), device="cpu")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no-such-model", "tiny, tiny-race, a folder, a .gguf file or a hub id"),
        ("./nowhere/model", "tiny-race, a folder"),
        ("missing.gguf", "no such file"),
    ],
)
def test_a_name_that_leads_nowhere_says_what_is_allowed(name, message):
    with pytest.raises(InputError, match=message):
        load_model(name)


def test_an_empty_folder_and_one_with_two_files_say_so(tmp_path):
    with pytest.raises(InputError, match=r"no \.safetensors and no \.gguf"):
        load_model(str(tmp_path))
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).touch()
    with pytest.raises(InputError, match="2 GGUF files"):
        load_model(str(tmp_path))


def test_a_gguf_file_is_found_in_a_folder_by_path_and_on_the_hub(tmp_path):
    (tmp_path / "a.gguf").touch()
    assert models.locate(str(tmp_path)) == (str(tmp_path), "a.gguf")
    assert models.locate(str(tmp_path / "a.gguf")) == (str(tmp_path), "a.gguf")
    assert models.locate("owner/name/a.gguf") == ("owner/name", "a.gguf")
    assert models.locate("owner/name") == ("owner/name", None)


@pytest.mark.parametrize("name", sorted(models.SHIPPED))
def test_a_model_of_ours_is_its_folder_in_the_package_or_a_clear_refusal(tmp_path, monkeypatch, name):
    monkeypatch.setitem(models.SHIPPED, name, tmp_path)
    with pytest.raises(InputError, match="not part of this installation"):
        load_model(name)
    (tmp_path / "model.safetensors").touch()
    assert models.locate(name) == (str(tmp_path), None)


def test_what_comes_with_the_package_stays_small_and_says_how_it_was_made():
    for folder in models.SHIPPED.values():
        assert "rewardrate pretrain" in (folder / "MODEL_CARD.md").read_text()
    sizes = [path.stat().st_size for folder in models.SHIPPED.values() for path in folder.iterdir()]
    assert sum(sizes) <= 16_000_000


def test_two_roundings_of_one_embedding_become_one_again_and_two_embeddings_stay_two(build):
    model = build.llama(tie_word_embeddings=False)
    models.tie_copies(model)
    assert model.get_input_embeddings().weight is not model.get_output_embeddings().weight
    with torch.no_grad():
        outer = model.get_output_embeddings().weight
        model.get_input_embeddings().weight.copy_(outer + 0.01 * torch.randn_like(outer))
    models.tie_copies(model)
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "mps"])
def test_an_unknown_device_is_refused(folder, device):
    with pytest.raises(InputError, match="auto, cpu or cuda"):
        load_model(str(folder), device=device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_one_line(folder):
    with pytest.raises(InputError, match="no NVIDIA GPU"):
        load_model(str(folder), device="cuda")


def test_lora_trains_little_and_leaves_the_rest_frozen(folder):
    pytest.importorskip("peft", reason="optional")
    loaded = load_model(str(folder), device="cpu", lora=LoraSettings(rank=2))
    learning = [name for name, p in loaded.model.named_parameters() if p.requires_grad]
    assert learning
    assert all("lora_" in name for name in learning)


def test_lora_without_its_package_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingExtra, match="peft"):
        load_model(str(folder), device="cpu", lora=LoraSettings())


def test_gguf_without_its_package_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "a.gguf").touch()
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(MissingExtra, match="gguf"):
        load_model(str(tmp_path), device="cpu")
