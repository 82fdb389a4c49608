"""GRPO of TRL with time charged: our tiny model, three updates on a CPU; lines that price time are marked `# +`."""

import os
import tempfile
import time
from importlib.util import find_spec

os.environ |= {"TRL_EXPERIMENTAL_SILENCE": "1", "HF_HUB_OFFLINE": "1"}


def attempt(text):
    """Run what the model wrote; here: some work, and a reward for keywords of Python."""
    time.sleep(0.002 + 0.0001 * len(text))
    return sum(text.count(word) for word in ("import", "fit", "print")) / 10


def main():
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from rewardrate.policies import load_model
    from rewardrate.scale import PricedReward  # +

    language = load_model("tiny", device="cpu")
    tokenizer = language.tokenizer

    def rollout(prompts, trainer):
        found = {name: [] for name in ("prompt_ids", "completion_ids", "logprobs", "reward", "seconds")}
        for prompt in prompts:
            ids = tokenizer(prompt, return_tensors="pt").input_ids
            reply = trainer.model.generate(ids, do_sample=True, max_new_tokens=24)[0, ids.shape[1] :]
            begun = time.perf_counter()  # +
            reward = attempt(tokenizer.decode(reply))
            row = {"seconds": time.perf_counter() - begun, "reward": reward}  # +
            row |= {"prompt_ids": ids[0].tolist(), "completion_ids": reply.tolist(), "logprobs": [0.0] * len(reply)}
            found = {name: [*values, row[name]] for name, values in found.items()}
        return found

    sizes = {"per_device_train_batch_size": 4, "num_generations": 4, "max_completion_length": 24, "max_steps": 3}
    quiet = {"report_to": [], "save_strategy": "no", "disable_tqdm": True, "use_cpu": True, "bf16": False}
    quiet |= {"activation_checkpointing": False}  # it would forbid the cache that sampling needs
    priced = PricedReward()  # +
    trainer = GRPOTrainer(
        model=language.model,
        processing_class=tokenizer,
        reward_funcs=priced,  # +
        rollout_func=rollout,
        args=GRPOConfig(output_dir=tempfile.mkdtemp(), **sizes, **quiet),
        train_dataset=Dataset.from_dict({"prompt": ["# task: digits8x8\n"] * 16}),
    )
    trainer.train()
    print(f"three updates; a second is charged {priced.estimator.estimate.price:.2f} reward")


if find_spec("trl") is None:
    print("SKIPPED: TRL is not installed")
else:
    main()
