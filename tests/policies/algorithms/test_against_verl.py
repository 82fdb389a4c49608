"""GRPO and RLOO against verl's own functions on the same matrices: advantages, losses and their gradients to 1e-5."""

import json
import subprocess
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs the agent extra")

import algorithm_batches  # noqa: E402
from rewardrate.policies import policy_gradient as pg  # noqa: E402
from rewardrate.policies.algorithms.grpo import GRPO  # noqa: E402
from rewardrate.policies.algorithms.rloo import RLOO  # noqa: E402

PYTHON = Path(__file__).parents[3] / ".venv-verl" / "bin" / "python"
KL = 0.05
VERL = """
import json, sys
import numpy as np
import torch
from verl.trainer.ppo import core_algos as verl

class Settings(dict):
    clip_ratio, clip_ratio_low, clip_ratio_high, global_batch_info = 0.2, None, None, {}

given = json.load(sys.stdin)
mask, logprobs, old, reference, rewards = (
    torch.tensor(given[name], dtype=torch.float64) for name in ("mask", "logprobs", "old", "reference", "rewards")
)
index, settings = np.array(given["groups"]), Settings(clip_ratio_c=1e6)
first = torch.zeros_like(mask)
first[:, 0] = 1
scores = lambda: rewards.unsqueeze(1) * first
found = {
    "grpo": verl.compute_grpo_outcome_advantage(scores(), mask, index)[0],
    "grpo, spread not scaled": verl.compute_grpo_outcome_advantage(scores(), mask, index, 1e-6, False)[0],
    "rloo": verl.compute_rloo_outcome_advantage(scores() - given["kl"] * (old - reference) * mask, mask, index)[0],
}
losses = {}
for name, mode in (("tokens", "token-mean"), ("rows", "seq-mean-token-mean")):
    point = logprobs.clone().requires_grad_()
    loss = verl.compute_policy_loss_vanilla(old, point, found["grpo"], mask, mode, settings)[0]
    away = verl.agg_loss(verl.kl_penalty(point, reference, "low_var_kl"), mask, mode)
    (loss + given["kl"] * away).backward()
    losses[name] = [float(loss + given["kl"] * away), point.grad.tolist()]
print("FOUND" + json.dumps({"advantages": {name: part.tolist() for name, part in found.items()}, "losses": losses}))
"""


@pytest.fixture(scope="module")
def case():
    rewards = torch.randn(12, generator=torch.Generator().manual_seed(4)).mul(3).tolist()
    return algorithm_batches.batch(rewards, [i // 4 for i in range(12)], kl_coefficient=KL)


@pytest.fixture(scope="module")
def theirs(case):
    if not (PYTHON.parent.parent / ".ready").exists():
        pytest.skip("there is no .venv-verl (make test makes one): GRPO and RLOO are NOT compared with verl")
    batch, logprobs = case
    given = {"mask": batch.mask.double(), "logprobs": logprobs, "old": batch.old_logprobs, "rewards": batch.rewards}
    given |= {"reference": batch.reference_logprobs, "groups": batch.groups}
    text = json.dumps({name: part.tolist() for name, part in given.items()} | {"kl": KL})
    done = subprocess.run([str(PYTHON), "-c", VERL], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.partition("FOUND")[2])


@pytest.mark.parametrize(
    ("name", "algorithm"),
    [
        ("grpo", GRPO(epsilon=1e-6)),
        ("grpo, spread not scaled", GRPO(epsilon=1e-6, scale="none")),
        ("rloo", RLOO()),
    ],
)
def test_advantages_are_those_of_verl(name, algorithm, case, theirs):
    batch, _ = case
    found, _ = algorithm.advantages(batch)
    torch.testing.assert_close(found, torch.tensor(theirs["advantages"][name], dtype=found.dtype), atol=1e-5, rtol=0)


@pytest.mark.parametrize("mean", ["tokens", "rows"])
def test_the_loss_of_grpo_and_its_gradient_are_those_of_verl(mean, case, theirs):
    batch, logprobs = case
    algorithm = GRPO(epsilon=1e-6, mean=mean)
    batch.advantages, _ = algorithm.advantages(batch)
    point = logprobs.clone().requires_grad_()
    loss = algorithm.loss(batch, point, batch.old_values)
    rows = len(batch.rewards)
    over_tokens = pg.masked_sum(loss.policy, batch.mask) / batch.mask.sum()
    value = over_tokens if mean == "tokens" else pg.mean_over_rows(loss.policy, batch.mask, rows)
    value.backward()
    expected, slope = theirs["losses"][mean]
    assert float(value.detach()) == pytest.approx(expected, abs=1e-5)
    torch.testing.assert_close(point.grad, torch.tensor(slope, dtype=point.dtype), atol=1e-5, rtol=0)
    assert 0 < float(pg.masked_sum(loss.shares["clip_share"], batch.mask)) < float(batch.mask.sum())
