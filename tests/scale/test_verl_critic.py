"""A critic of verl's has the attention that its config names; the run with one is in test_verl_adapter."""

import os
import subprocess

from scale.test_verl_adapter import PYTHON, ROOT, needs_verl

TINY = ROOT / "src" / "rewardrate" / "policies" / "tiny"
LOAD = """
import sys
import torch
from transformers import AutoConfig
from verl.utils.model import load_valuehead_model

for attention in ("sdpa", "eager"):
    config = AutoConfig.from_pretrained(sys.argv[1], attn_implementation=attention)
    config.num_labels = 1
    critic = load_valuehead_model(sys.argv[1], torch.float32, config, False)
    values = critic(torch.tensor([[5, 6, 7]])).logits
    print(type(critic).__name__, critic.config._attn_implementation, tuple(values.shape))
"""


@needs_verl
def test_a_critic_is_loaded_with_the_attention_of_its_config():
    place = {**os.environ, "VERL_USE_EXTERNAL_MODULES": "rewardrate.scale.verl_critic"}
    done = subprocess.run(
        [str(PYTHON), "-c", LOAD, str(TINY)], capture_output=True, text=True, check=True, timeout=300, env=place
    )
    kind, shape = "LlamaForTokenClassification", "(1, 3, 1)"
    assert done.stdout.splitlines()[-2:] == [f"{kind} sdpa {shape}", f"{kind} eager {shape}"]
