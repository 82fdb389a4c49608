"""Toy worlds for a real learner: a reply is a word, a word is an arm; a small transformer is trained on them."""

import dataclasses

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from rewardrate.attempt import Outcome
from rewardrate.environments import Environment
from rewardrate.policies import LanguageModelPolicy, LearnerSettings, SamplingSettings
from rewardrate.policies.models import LanguageModel
from rewardrate.rates import NIW, Accumulators
from rewardrate.runlog import RunLog
from rewardrate.training.buffer import SolutionBuffer
from rewardrate.training.loop import Budget, Loop
from rewardrate.training.objective import Objective
from rewardrate.training.pricer import Pricer

END, GO = "<end>", "go"
SAMPLING = SamplingSettings(temperature=1.0, top_p=1.0, top_k=0, presence_penalty=0.0, new_tokens=1)
LEARNER = LearnerSettings(
    learning_rate=1e-2, critic_learning_rate=1e-2, critic="shared", micro_batch=32, kl_coefficient=0.0
)


@dataclasses.dataclass
class World(Environment):
    """An arm a word: (reward, seconds) or (reward, seconds, status). Any other reply is a failure of a second."""

    arms: dict
    limit_seconds: float = 10.0
    change: tuple = ()
    "(step, arms): what the arms are from that step on."
    noise: float = 0.0
    "Spread of the logarithm of a factor on every attempt's seconds."
    steps: int = 0

    def prompt(self, parent=None):
        return [{"role": "user", "content": f"{parent.code} {GO}" if parent else GO}]

    def stream(self, replies, parents=None):
        self.steps += 1
        arms = self.change[1] if self.change and self.steps >= self.change[0] else self.arms
        factors = np.exp(self.noise * np.random.default_rng(self.steps).normal(size=len(replies)))
        for place, reply in enumerate(replies):
            word = reply.strip()
            reward, seconds, *status = arms.get(word, (0.0, 1.0, "error"))
            status = status[0] if status else "ok"
            yield place, Outcome(status == "ok", reward, reward, seconds * factors[place], status, status, word)


def language(words, seed):
    """One layer of a Llama over these words, with random weights that prefer none of them much."""
    vocabulary = {word: i for i, word in enumerate([END, GO, *words])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token=GO))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token=END, pad_token=END)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=64,
        initializer_range=0.05,
        bos_token_id=None,
        eos_token_id=0,
    )
    torch.manual_seed(seed)
    return LanguageModel("toy", LlamaForCausalLM(config).eval(), tokenizer, (0,))


def loop(folder, world, *, seed=0, steps=50, batch=16, objective=None, learner=LEARNER, sampling=SAMPLING, **changes):
    """Algorithm 1 with a language model on a world, new or resumed."""
    log = RunLog.open(folder) if RunLog.exists(folder) else RunLog.create(folder, "", {})
    policy = LanguageModelPolicy(language(world.arms, seed), sampling, learner, seed=seed)
    return Loop(
        environment=world,
        policy=policy,
        pricer=Pricer(
            world,
            objective or Objective(bonus=0.0, penalty=-1.0),
            changes.pop("estimator", None) or NIW(seed=seed),
            Accumulators(batch, window=changes.pop("window", None)),
            buffer=SolutionBuffer(10 * batch),
            attempts_per_prompt=learner.algorithm.attempts_per_prompt,
        ),
        log=log,
        budget=Budget(steps=steps),
        seed=seed,
        checkpoint_every=changes.pop("every", 1000),
        **changes,
    )


def shares(run):
    """Probability of replying with each arm, over the prompts that the next step would ask."""
    language, found = run.policy.language, dict.fromkeys(run.environment.arms, 0.0)
    parents = run.pricer.parents()
    for parent in parents:
        tokens = language.encode(run.environment.prompt(parent))
        with torch.no_grad():
            chances = language.model(torch.tensor([tokens])).logits[0, -1].softmax(-1)
        for word in found:
            found[word] += float(chances[language.tokenizer.convert_tokens_to_ids(word)]) / len(parents)
    return found


def trained(folder, world, **options):
    """Train on a world; the probability of each arm at the end."""
    run = loop(folder, world, **options)
    run.run()
    run.log.close()
    return shares(run)
