"""Stock verl trains on our rewards, to six digits, and a resumed run keeps its rate and its buffer.

verl needs an older transformers than we do, so it lives in an environment of its own, which `make test` makes.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

import chat_server
from rewardrate import config
from rewardrate.attempt import Outcome, Proposal
from rewardrate.cli.main import main
from rewardrate.environments.environment import RewardRules
from rewardrate.runlog import RunLog
from rewardrate.scale.verl_dump import agreement, trained_on
from rewardrate.training.recipe import Recipe

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
PYTHON = ROOT / ".venv-verl" / "bin" / "python"
MINUTES = 15
LIMIT_SECONDS = 10.0  # of verl_cpu/cpu.yaml
GOOD = chat_server.SCRIPT.replace("PLACE", "1")  # the engine's first reply: whether a drawn one works is luck

needs_verl = pytest.mark.skipif(
    not (PYTHON.parent.parent / ".ready").exists(),
    reason="there is no .venv-verl (make test makes one): the run on stock verl is NOT tried",
)


def run(config_name, out, *settings, **variables):
    words = [str(PYTHON), str(ROOT / "examples" / "verl_ppo.py"), f"--config={config_name}", f"--out={out}", *settings]
    own = Path(tempfile.mkdtemp(prefix="rr-"))  # its own locks of cores: no other test's script holds it up
    own.chmod(0o711)
    place = {**os.environ, "TMPDIR": str(own), "CPU_ROLLOUT_FIRST_REPLY": GOOD, **variables}
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=60 * MINUTES + 60, check=False, env=place)
    finally:
        shutil.rmtree(own, ignore_errors=True)
    log = (out / "log.txt").read_text()
    assert done.returncode == 0, log[-3000:]
    return log


def ours(rows, batch):
    """Rewards by our own loop's parts, from the outcomes alone: {(step, chain): reward}, and the rates."""
    recipe = config.load(Recipe, config.find_recipe("laptop"), [f"batch={batch}"])
    rules = RewardRules()
    rules.limit_seconds = LIMIT_SECONDS
    pricer, found, rates = recipe.make_pricer(rules), {}, []
    for step in sorted({row.step for row in rows}):
        mine = [row for row in rows if row.step == step]
        outcomes = [Outcome(**{name: getattr(row, name) for name in Outcome.__dataclass_fields__}) for row in mine]
        assert [row.row for row in mine] == list(range(batch))
        assert [row.id for row in mine] == list(range(1 + (step - 1) * batch, 1 + step * batch))
        priced = pricer.price(outcomes, step=step, attempts=[row.id for row in mine])
        found |= {(step, chain): reward for chain, reward in enumerate(priced.rewards)}
        rates.append(priced.rate.rate)
    return found, rates, pricer.buffer


def check(out, batch):
    with RunLog.open(out / "run", read_only=True) as log:
        rows, steps, about = list(log.attempts()), list(log.steps()), log.about()
    assert (about["engine"], about["arm"], about["policy"][-4:]) == ("verl", "rpg", "tiny")
    expected, rates, buffer = ours(rows, batch)
    assert [step.rate.rate for step in steps] == pytest.approx(rates, rel=1e-9)
    assert any(row.valid and row.code == GOOD for row in rows), "no script that works was run: nothing was shown"
    assert [row for row in rows if row.code != GOOD and row.charged and row.tokens], "the model was not asked"
    for step in steps:
        mine = [row for row in rows if row.step == step.step]
        assert [row.relative_reward is None for row in mine] == [not row.charged for row in mine]
        theirs = [reward for _, reward in trained_on(out / "rollouts", step.step)]
        wanted = sorted((row.reply, expected[step.step, row.row]) for row in mine if row.charged)
        assert [reward for _, reward in wanted] == pytest.approx(theirs, rel=1e-6, abs=1e-6)
    found = agreement(out / "run", out / "rollouts")
    assert (found.steps, found.attempts) == (len(steps), len([row for row in rows if row.charged]))
    assert found.difference < 1e-6
    return rows, buffer


@needs_verl
def test_ppo_trains_on_our_rewards_and_a_resumed_run_goes_on_with_rate_and_buffer(tmp_path):
    log = run("ppo_cpu", tmp_path, CPU_ROLLOUT_FAILS_AT="5")  # in the second step an engine loses a reply
    assert "57 tensors, [] missing, [] left over" in log  # new weights reach the sampler
    assert log.count("rewardrate/left_out:1.0") == log.count("rewardrate/left_out:0.0") == 1
    rows, _ = check(tmp_path, 3)
    assert [row.step for row in rows if row.status == "sandbox-failure"] == [2]
    with RunLog.open(tmp_path / "run") as record:  # as if verl was killed in a third step, after its checkpoint
        record.begin_step(3, [Proposal("lost")] * 3)
    run("ppo_cpu", tmp_path, "trainer.total_training_steps=3")
    rows, buffer = check(tmp_path, 3)  # the third step is priced by all three: the state came back
    assert [row.step for row in rows] == [1] * 3 + [2] * 3 + [3] * 3
    prompts = [json.loads(line)["input"] for line in (tmp_path / "rollouts" / "3.jsonl").read_text().splitlines()]
    known = {row.id: row.code for row in rows if row.step < 3 and row.valid}
    assert any(code.splitlines()[0] in prompt for code in known.values() for prompt in prompts), (
        "prompts show the buffer"
    )
    assert {row.parent for row in rows if row.step == 3} <= set(known)
    assert len(buffer) >= 1
    with RunLog.open(tmp_path / "run", read_only=True) as record:
        assert [event.kind for event in record.events()].count("rewound") == 1
        asked = {row.parent: record.prompt(row.id)[-1]["content"] for row in rows if row.step == 3}
    told = {row.id: row.message for row in rows}
    assert all(told[parent] in prompt for parent, prompt in asked.items()), "the parent is the one that was shown"
    assert main(["report", str(tmp_path / "run")]) == 0
    page = (tmp_path / "run" / "report.html").read_text()
    cells = "".join(f"<td[^>]*>{cell}</td>" for cell in ("rpg", "[0-9]+", 3, 9))
    assert re.search(cells, page), "arm, seed, steps, attempts"


@pytest.mark.deep
@needs_verl
def test_grpo_trains_on_our_rewards_and_leaves_out_an_attempt_that_the_engine_lost(tmp_path):
    settings = "trainer.total_training_steps=1", "trainer.save_freq=-1"
    log = run("grpo_cpu", tmp_path, *settings, CPU_ROLLOUT_FAILS_AT="3")
    rows, _ = check(tmp_path, 4)
    assert [row.status for row in rows].count("sandbox-failure") == 1
    assert "rewardrate/left_out:1.0" in log


REFUSED = """
import importlib, sys, time
from omegaconf import OmegaConf
from transformers import AutoTokenizer
from rewardrate.errors import InfrastructureError, InputError
from rewardrate.scale.verl_adapter import BufferPrompts, PricedSampler, _Here

missing = []
for word in sys.argv[2:]:
    module, _, names = word.partition(":")
    found = importlib.import_module(module)
    for name in names.split("."):
        found = getattr(found, name, None)
    missing += [word] if found is None else []
print(missing)
own = {"recipe": "laptop", "attempts": 1, "steps": None, "run": None}
base = {"rewardrate": own, "train_files": "train", "val_files": "val", "train_batch_size": 8, "shuffle": False}
base |= {"dataloader_num_workers": 0, "max_prompt_length": 640}
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
for change in ({}, {"rewardrate": own | {"steps": 30}}, {"shuffle": True}, {"val_files": "train"},
               {"dataloader_num_workers": 8}, {"rewardrate": {}}, {"rewardrate": own | {"record": "a.jsonl"}}):
    config = OmegaConf.create({**base, **change})
    try:
        print(len(BufferPrompts("train", tokenizer, config)))
    except InputError as error:
        print(error)
whole = OmegaConf.create({"data": base, "actor_rollout_ref": {"rollout": {"n": 2}}})
try:
    BufferPrompts("train", tokenizer, whole.data)
except InputError as error:
    print(error)
whole.data.rewardrate.attempts = "${actor_rollout_ref.rollout.n}"
prompts = BufferPrompts("train", tokenizer, whole.data)
print(prompts.batch.recipe.batch)
saved = prompts.state_dict()
prompts.load_state_dict(saved)
for state in ({"other": 1}, {"rewardrate": saved["rewardrate"].replace("diamonds", "digits8x8")}):
    try:
        prompts.load_state_dict(state)
    except InputError as error:
        print(error)
assert _Here.silence_seconds == 3600 + 2 * 2 * 10 + 300
settings = {"trainer_config": None, "max_off_policy_threshold": None, "max_off_policy_strategy": "drop"}
settings |= {"sampler_kwargs": None, "poll_interval": 0.05}
try:
    PricedSampler(trainer_mode="separate_async", **settings)
except InputError as error:
    print(error)
sampler = PricedSampler(trainer_mode="sync", **settings)
_Here.silence_seconds, begun = 1.0, time.monotonic()
try:
    for poll in range(1000):
        if time.monotonic() - begun < 2:
            sampler.partitions["train"][poll] = {}  # an attempt has ended
        sampler._wait_for_next_poll("train", time.time())
except InfrastructureError as error:
    assert time.monotonic() - begun > 2.5
    print(error)
"""


SYMBOLS = [line for line in (HERE / "verl_symbols.txt").read_text().splitlines() if not line.startswith("#")]


@needs_verl
def test_every_symbol_that_we_touch_exists_and_a_config_that_would_go_wrong_in_silence_is_refused():
    """In one process: most of what it takes is to import verl."""
    words = [str(PYTHON), "-c", REFUSED, str(ROOT / "src" / "rewardrate" / "policies" / "tiny"), *SYMBOLS]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=300)
    missing, *found = done.stdout.splitlines()[-14:]
    assert missing == "[]"
    assert found[:2] == [str(8 * 12), str(8 * 30)]  # as long as the recipe's budget, or as verl's own number of steps
    fields = ["data.shuffle", "data.val_files", "data.dataloader_num_workers", "data.rewardrate.recipe"]
    fields += ["data.rewardrate.record = 'a.jsonl': attempts are kept in a run folder now; name a folder"]
    fields += ["data.rewardrate.attempts = 1: actor_rollout_ref.rollout.n is 2", "16", "data.pt"]
    fields += ["state.task = 'digits8x8': it was saved with another task, and this is diamonds"]
    fields += ["trainer.v1.trainer_mode = 'separate_async'", "no attempt ended for 1 s"]
    assert all(line.startswith(field) for line, field in zip(found[2:], fields, strict=True)), found


def test_the_list_of_symbols_is_complete_and_stands_in_the_docs():
    source = (ROOT / "src" / "rewardrate" / "scale" / "verl_adapter.py").read_text()
    imported = re.findall(r"^from (verl[\w.]*) import (.+)$", source, re.MULTILINE)
    names = {name.strip() for _, line in imported for name in line.split(",")}
    names |= set(re.findall(r"\btq\.(\w+)", source))
    listed = " ".join(SYMBOLS)
    assert all(name in listed for name in names), names
    page = (ROOT / "docs" / "verl.md").read_text()
    assert all(f"`{symbol.split(':')[1]}`" in page for symbol in SYMBOLS)
    others = [path for path in (ROOT / "src").rglob("*.py") if path.name not in ("verl_adapter.py", "verl_critic.py")]
    assert not [path for path in others if re.search(r"^\s*(from|import) verl\b", path.read_text(), re.MULTILINE)]
