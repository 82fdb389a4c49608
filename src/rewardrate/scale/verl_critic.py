"""Critics with the attention that their config names: a plugin of verl, for machines without flash-attn.

verl 0.9.1 loads every critic with flash attention, whatever `critic.model.override_config.attn_implementation` says.
verl imports the modules that this variable names in each of its processes, and then the config decides:

    export VERL_USE_EXTERNAL_MODULES=rewardrate.scale.verl_critic
"""

from __future__ import annotations

from typing import Any

from transformers import AutoModelForTokenClassification
from verl.utils import model


def load_valuehead_model(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
    """A critic, as verl's function of this name loads it but for the attention."""
    return AutoModelForTokenClassification.from_pretrained(
        local_path,
        dtype=torch_dtype,
        config=model_config,
        attn_implementation=model_config._attn_implementation,
        trust_remote_code=trust_remote_code,
    )


model.load_valuehead_model = load_valuehead_model
