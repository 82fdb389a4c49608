"""Replies by the built-in sampler and by vLLM from the same weights; the line that chooses is marked with `# +`.

vLLM needs an NVIDIA GPU and an environment of its own; elsewhere this says so and ends.
"""

from dataclasses import replace
from importlib.util import find_spec


def why_not():
    """What is missing here; empty when nothing is."""
    for name, extra in (("torch", "agent"), ("vllm", "agent,report,vllm")):
        if find_spec(name) is None:
            return f"{name} is not installed (pip install 'rewardrate[{extra}]', on a machine with an NVIDIA GPU)"
    import torch

    return "" if torch.cuda.is_available() else "there is no NVIDIA GPU here, and vLLM's wheel has no kernels for CPUs"


def main():
    from rewardrate.policies import Sampler, SamplingSettings, load_model
    from rewardrate.policies.vllm import VllmSampler

    language = load_model("tiny", device="cuda")
    prompts = [language.encode([{"role": "user", "content": f"# task: {name}"}]) for name in ("digits8x8", "diamonds")]
    likeliest = SamplingSettings(temperature=1.0, top_p=1.0, top_k=1, presence_penalty=0.0, new_tokens=40)
    for settings in (likeliest, replace(likeliest, engine="vllm")):  # +
        make = VllmSampler if settings.engine == "vllm" else Sampler
        samples = make(language.model, settings, language.stops).sample(prompts, seed=0)
        for sample in samples:
            print(f"{settings.engine:5} {language.decode(sample.tokens)[:60]!r}")


if __name__ == "__main__":  # vLLM's process imports this file
    if missing := why_not():
        print(f"SKIPPED: {missing}, so vLLM is NOT tried")
    else:
        main()
