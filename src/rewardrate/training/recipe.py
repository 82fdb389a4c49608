"""A training run as a config: what a recipe file says, and the parts that it makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Literal, get_args

from rewardrate import rates, registry
from rewardrate.config import AtLeast, Registered
from rewardrate.environments.environment import GROUP, EnvironmentSettings, RewardRules, RunSetup
from rewardrate.environments.mle.environment import Settings
from rewardrate.errors import InputError, did_you_mean
from rewardrate.policies.endpoint import EndpointSettings
from rewardrate.policies.policy import GROUP as POLICIES
from rewardrate.policies.policy import Policy, PolicySettings
from rewardrate.policies.settings import LearnerSettings, LoraSettings, SamplingSettings
from rewardrate.rates.estimate import Estimator
from rewardrate.rates.settings import GROUP as ESTIMATORS
from rewardrate.rates.settings import EstimatorSettings, NIWSettings
from rewardrate.sandbox import Executor, Pool, cores
from rewardrate.training.buffer import LargeEdits, SolutionBuffer
from rewardrate.training.loggers import Name
from rewardrate.training.loop import Budget
from rewardrate.training.objective import Arm, Objective, Overhead
from rewardrate.training.pricer import Pricer

ArmName = Arm | Literal["horizon", "fixed"]
PriceName = Literal["rate", "horizon", "fixed", "none"]
Schedule = Literal["step", "stream"]
MAX_AGE = 8  # keeps 96 % of the slots busy at 128 chains and a spread of 10, where 4 keeps 78 % (docs/training.md)
PRICE_OF_ARM: dict[ArmName, PriceName] = {"rpg": "rate", "vanilla": "rate", "horizon": "horizon", "fixed": "fixed"}
EXECUTORS = "rewardrate.executors"  # group of entry points; what they must do: docs/ray.md, An executor of your own


@dataclass(frozen=True)
class ModelChoice(PolicySettings):
    """A language model that is trained here."""

    kind: Literal["model"] = "model"
    weights = "name"
    name: str = "tiny"
    "tiny (comes with the package), a folder, a .gguf file, or a hub id."
    device: str = "auto"
    "auto: the GPU if there is one."
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    learner: LearnerSettings = field(default_factory=LearnerSettings)
    lora: LoraSettings | None = None
    "Train small additions to frozen weights instead of the weights."

    def make(self, seed: int) -> Policy:
        """The policy, weights loaded."""
        from rewardrate.policies import LanguageModelPolicy, load_model

        language = load_model(self.name, device=self.device, lora=self.lora)
        return LanguageModelPolicy(language, self.sampling, self.learner, seed=seed)

    @property
    def label(self) -> str:
        """The model's name."""
        return self.name

    @property
    def attempts_per_prompt(self) -> int:
        """As the algorithm wants it."""
        return self.learner.algorithm.attempts_per_prompt

    def for_stream(self) -> ModelChoice:
        """Learns from a reply with the ratio of today's policy to the one that wrote it."""
        if self.sampling.engine == "vllm" and not self.sampling.unmodified:
            rule = "it does not say how likely a reply was under the policy that wrote it where replies are cut"
            remedy = 'set top_p = 1, top_k = 0 and presence_penalty = 0, or engine = "auto"'
            raise InputError("policy.sampling.engine", "vllm", f'{rule}; schedule = "stream" needs that', remedy)
        if self.learner.old_logprobs != "recomputed":
            return self
        return replace(self, learner=replace(self.learner, old_logprobs="decoupled"))

    def check_weights(self, name: str) -> None:
        """A model that is not there."""
        from rewardrate.policies.models import locate

        locate(name)

    def check_device(self) -> None:
        """A GPU that is not there."""
        from rewardrate.policies.models import usable_device

        usable_device(self.device)


@dataclass(frozen=True)
class EndpointChoice(EndpointSettings, PolicySettings):
    """A frozen model behind an OpenAI-compatible endpoint: the loop, the buffer and the price without updates."""

    kind: Literal["endpoint"] = "endpoint"

    def make(self, seed: int) -> Policy:
        """The policy, nothing asked yet."""
        from rewardrate.policies import EndpointPolicy

        return EndpointPolicy(**{name: value for name, value in asdict(self).items() if name != "kind"})

    @property
    def label(self) -> str:
        """The model's name."""
        return self.model


@dataclass(frozen=True)
class Slots:
    """How scripts are run side by side."""

    slots: Annotated[int, AtLeast(1)] | None = None
    "Scripts at once; as many as whole cores allow unless given."
    clock: Literal["wall", "cpu", "warm"] = "wall"
    "Which seconds are priced. warm: seconds without imports; a run uses one clock for all attempts."
    repeats: Annotated[int, AtLeast(0)] = 1
    "How often a contaminated measurement is taken again."
    executor: str = "pool"
    "Where scripts run: pool is this machine, ray a cluster (docs/ray.md); or one that an installed package offers."
    address: str = ""
    "Of the cluster: host:port, or auto for the one on this machine. May change when a run resumes."

    def __post_init__(self) -> None:
        if self.executor == "pool":
            if self.address:
                raise InputError("sandbox.address", self.address, "a pool is on this machine", 'set executor = "ray"')
            return
        known = registry.load(EXECUTORS, "sandbox.executor")
        if self.executor not in known:
            remedy = did_you_mean(self.executor, ["pool", *known])
            raise InputError("sandbox.executor", self.executor, "there is none", remedy)

    def make(self) -> Executor:
        """The executor, empty. Others than the pool are found by name: no package above this one is imported."""
        if self.executor == "pool":
            return Pool(self.slots, clock=self.clock, repeats=self.repeats)
        found = registry.load(EXECUTORS, "sandbox.executor")[self.executor]
        if not issubclass(found, Executor):
            rule = f"{found.__module__}.{found.__name__} is not a rewardrate.sandbox.Executor"
            raise InputError("sandbox.executor", self.executor, rule, "docs/ray.md says what an executor does")
        made: Callable[..., Executor] = found
        return made(self.address, slots=self.slots, clock=self.clock, repeats=self.repeats)


@dataclass(frozen=True)
class Recipe:
    """One run: one arm, one task, one seed."""

    task: str
    "Name or folder of a task, or mlebench:ID; of a race, where the environment is a speedrun."
    batch: Annotated[int, AtLeast(2)] = 128
    "Attempts a step; each row of the batch is a chain."
    budget: Budget = field(default_factory=lambda: Budget(steps=300))
    objective: Objective = field(default_factory=Objective)
    policy: Annotated[PolicySettings, Registered(POLICIES, "", (ModelChoice, EndpointChoice))] = field(
        default_factory=ModelChoice
    )
    price: PriceName = "rate"
    "Of a second: the reward rate (paper), what it can still earn before budget.script_seconds, a number, or nothing."
    reward_per_second: Annotated[float, AtLeast(0)] | None = None
    "The number that the price fixed charges; objective.price_scale applies to it as to every price."
    estimator: Annotated[EstimatorSettings, Registered(ESTIMATORS, "niw")] = field(default_factory=NIWSettings)
    environment: Annotated[EnvironmentSettings, Registered(GROUP, "mle")] = field(default_factory=Settings)
    sandbox: Slots = field(default_factory=Slots)
    overhead: Overhead = field(default_factory=Overhead)
    window: Annotated[int, AtLeast(1)] | None = None
    "Fit the rate (niw) on totals of the last so many steps instead of all (docs/rates.md)."
    invalid_in_fit: Literal["zero", "exclude"] = "zero"
    "Failed attempts in the fit: reward 0 with their real seconds, or left out."
    buffer_batches: Annotated[int, AtLeast(1)] = 10
    "Capacity of the solution buffer, in batches."
    copies: Literal["one", "all"] = "one"
    "Identical scripts in the buffer."
    large_edits: LargeEdits | None = None
    "Slots of the buffer's selection for children of large edits (the race)."
    schedule: Schedule = "step"
    "step: all chains wait for the slowest attempt. stream: each begins its next one as soon as its own has ended."
    max_age: Annotated[int, AtLeast(0)] | None = None
    "Stream: how many updates old an attempt may be when it is learned from; 8 unless given, 0 is as step."
    checkpoint_every: Annotated[int, AtLeast(1)] = 5
    "Steps between checkpoints."
    loggers: tuple[Name, ...] = ()
    "Where its curves are drawn as well: tensorboard, wandb (offline), mlflow. May change when a run resumes."
    seed: Annotated[int, AtLeast(0)] = 0
    "Of sampling and learning. Runs of a comparison with the same seed are a pair."

    def __post_init__(self) -> None:
        if self.budget == Budget():
            raise InputError("budget", "none", "a run needs an end", "set steps, script_seconds or wall_seconds")
        if (self.price == "fixed") != (self.reward_per_second is not None):
            if self.price == "fixed":
                rule, remedy = 'price = "fixed" needs it', "set it, for example to the reward rate of an earlier run"
            else:
                rule, remedy = f'price = "{self.price}" does not charge it', 'leave it out, or set price = "fixed"'
            raise InputError("reward_per_second", self.reward_per_second, rule, remedy)
        if self.window is not None and self.estimator.feeds != "totals":
            rule = f"{self.estimator.kind} takes single attempts, not totals, and would not see the window"
            raise InputError("window", self.window, rule, 'use estimator.kind = "niw", or its own forgetting')
        self._check_schedule()
        attempts = self.attempts_per_prompt
        if self.batch % attempts:
            near = " or ".join(
                str(one * attempts) for one in (self.batch // attempts, self.batch // attempts + 1) if one
            )
            rule = f"it must be a multiple of {attempts}, the policy's attempts at each prompt"
            raise InputError("batch", self.batch, rule, f"set it to {near}")

    def _check_schedule(self) -> None:
        if self.schedule not in get_args(Schedule):
            remedy = did_you_mean(str(self.schedule), get_args(Schedule))
            raise InputError("schedule", self.schedule, "it must be step or stream", remedy)
        if self.schedule == "step" and self.max_age is not None:
            rule = "with the schedule step every attempt is learned from at once"
            raise InputError("max_age", self.max_age, rule, 'leave it out, or set schedule = "stream"')
        if self.schedule == "stream" and self.estimator.whole_steps:
            rule = "it needs an attempt of every chain at each update, and chains that do not wait have some or none"
            raise InputError("estimator.kind", self.estimator.kind, rule, 'use niw, or set schedule = "step"')
        if self.schedule == "stream":
            self.policy.for_stream()

    @property
    def attempts_per_prompt(self) -> int:
        """Rows of the batch that share one prompt, as the policy wants it."""
        return self.policy.attempts_per_prompt

    @property
    def arm(self) -> ArmName:
        """Which arm of the experiment this is."""
        if self.price == "none" or self.objective.arm == "vanilla":
            return "vanilla"
        return "rpg" if self.price == "rate" else self.price

    def with_arm(self, arm: ArmName) -> Recipe:
        """The same run for an arm of the experiment; horizon and fixed are the arm rpg at another price."""
        if arm not in PRICE_OF_ARM:
            raise InputError("arm", arm, "there is no such arm", did_you_mean(str(arm), PRICE_OF_ARM))
        if arm == self.arm and self.price in ("fixed", "none"):
            return self
        objective = replace(self.objective, arm="vanilla" if arm == "vanilla" else "rpg")
        return replace(self, price=PRICE_OF_ARM[arm], reward_per_second=None, objective=objective)

    def make_policy(self) -> Policy:
        """The policy, weights loaded."""
        policy = self.policy.for_stream() if self.schedule == "stream" else self.policy
        return policy.make(self.seed)

    def make_stream(self) -> rates.Stream:
        """Which attempts begin and are learned from, where chains do not wait."""
        return rates.Stream(self.batch, self.batch, age=MAX_AGE if self.max_age is None else self.max_age)

    def together(self, script_cores: int) -> int:
        """For how many prompts the policy writes at once, so that each slot has two attempts to run or waiting.

        One where slots are not known (a cluster), or there is one for every chain.
        """
        if self.sandbox.executor != "pool":
            return 1
        most = max(1, len(cores.usable()) // script_cores)
        spare = self.batch - 2 * min(self.sandbox.slots or most, most)
        return max(1, spare // 2 // self.attempts_per_prompt)

    def setup(self) -> RunSetup:
        """What the recipe attempts, its data prepared. Raises InputError for one that cannot be had."""
        return self.environment.setup(self.task, self.sandbox.clock)

    def make_pricer(self, rules: RewardRules) -> Pricer:
        """The step between execution and learning, with nothing in it yet; `rules` are an environment's."""
        deadline = None if self.budget.script_seconds is None else self.budget.script_seconds / self.batch
        return Pricer(
            rules,
            replace(self.objective, arm="vanilla") if self.price == "none" else self.objective,
            self.make_estimator(),
            rates.Accumulators(self.batch, window=self.window, invalid=self.invalid_in_fit),
            buffer=SolutionBuffer(self.buffer_batches * self.batch, copies=self.copies, large=self.large_edits),
            overhead=self.overhead,
            price=self.make_price(),
            deadline=deadline,
            attempts_per_prompt=self.attempts_per_prompt,
            described=self.estimator.described,
        )

    def make_price(self) -> rates.PriceRule:
        """What a second costs, with nothing in it yet. Without a deadline the horizon is the reward rate."""
        if self.arm == "fixed" and self.reward_per_second is not None:
            return rates.FixedPrice(self.reward_per_second)
        return (
            rates.Horizon() if self.arm == "horizon" and self.budget.script_seconds is not None else rates.RatePrice()
        )

    def make_estimator(self) -> Estimator:
        """The estimator of the reward rate."""
        return self.estimator.for_batch(self.batch).make(self.seed)
