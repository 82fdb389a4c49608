"""The models of the corpus: what each is called, what it can predict, its settings, and what it costs, roughly.

Cost and quality need not be right. They keep hopeless scripts rare, and they let an imagined message say something
sensible; the real ones come from the sandbox.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from rewardrate.pretraining.corpus.brief import Answer

Settings = Mapping[str, str]
Cost = Callable[[float, float, Settings], float]
"Seconds of one core for so many rows and columns with these settings."

ALWAYS = 1.0


@dataclass(frozen=True)
class Setting:
    """One keyword of a constructor: the values it may take, and how often it is given at all."""

    name: str
    values: tuple[str, ...]
    share: float = 0.5


@dataclass(frozen=True)
class Family:
    """One class of scikit-learn."""

    name: str
    module: str
    answers: tuple[Answer, ...]
    settings: tuple[Setting, ...]
    quality: float
    "How good its predictions tend to be on a table of numbers, 0 to 1."
    cost: Cost
    weight: float = 1.0
    scaled: bool = False
    "Whether it wants scaled columns."
    dense: bool = False
    "Whether it refuses sparse matrices."
    counts: bool = False
    "Whether it wants counts: no negative values."

    @property
    def classifies(self) -> bool:
        """Whether it predicts classes rather than numbers."""
        return "label" in self.answers or "chances" in self.answers


@dataclass(frozen=True)
class ModelTemplate:
    """A family with its settings chosen."""

    family: Family
    settings: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """The constructor call."""
        return f"{self.family.name}({', '.join(f'{name}={value}' for name, value in self.settings)})"

    @property
    def quality(self) -> float:
        """How good it tends to be; larger ensembles are a little better."""
        size = number(dict(self.settings), "n_estimators", number(dict(self.settings), "max_iter", 100))
        bonus = 0.03 * math.log10(size / 100) if "n_estimators" in self.family.name or self.family.dense else 0.0
        return self.family.quality + bonus

    def seconds(self, rows: float, columns: float) -> float:
        """Roughly what fitting it takes."""
        return self.family.cost(rows, columns, dict(self.settings))


def number(settings: Settings, name: str, default: float) -> float:
    """The value of a numeric setting, or what the library takes when it is not given."""
    try:
        return float(settings.get(name, default))
    except ValueError:
        return default


def _linear(rows: float, columns: float, settings: Settings) -> float:
    return 3e-9 * rows * math.pow(columns, 1.5)


def _iterative(rows: float, columns: float, settings: Settings) -> float:
    return 2e-8 * rows * columns * math.sqrt(number(settings, "max_iter", 100))


def _forest(rows: float, columns: float, settings: Settings) -> float:
    depth = min(math.log2(rows + 2), number(settings, "max_depth", 40))
    part = math.sqrt(columns) if settings.get("max_features") in ('"sqrt"',) else columns / 2
    return 2e-7 * number(settings, "n_estimators", 100) * rows * depth * math.pow(max(1.0, part), 0.8)


def _tree(rows: float, columns: float, settings: Settings) -> float:
    return 1e-7 * rows * math.log2(rows + 2) * columns


def _boosting(rows: float, columns: float, settings: Settings) -> float:
    return 2.5e-7 * number(settings, "n_estimators", 100) * rows * columns * number(settings, "max_depth", 3) / 3


def _histogram(rows: float, columns: float, settings: Settings) -> float:
    return number(settings, "max_iter", 100) * (4e-9 * rows * columns + 4e-5 * math.sqrt(columns) + 2e-3)


def _neighbours(rows: float, columns: float, settings: Settings) -> float:
    return 2e-9 * rows * min(rows, 10_000) * math.pow(columns, 0.7)


def _kernel(rows: float, columns: float, settings: Settings) -> float:
    return 4e-9 * rows**2 * columns


def _network(rows: float, columns: float, settings: Settings) -> float:
    return 6e-8 * rows * (columns + 30) * math.pow(number(settings, "max_iter", 200), 0.8)


TREES = Setting("n_estimators", ("10", "20", "30", "50", "100", "100", "200", "300", "500"), 0.85)
LEAF = Setting("min_samples_leaf", ("2", "3", "5", "10", "20"), 0.3)
DEPTH = Setting("max_depth", ("3", "4", "6", "8", "10", "12", "16"), 0.3)
SEED = Setting("random_state", ("0", "42"), 0.8)
FEATURES = Setting("max_features", ('"sqrt"', "0.3", "0.5"), 0.2)
STEPS = Setting("learning_rate", ("0.02", "0.03", "0.05", "0.08", "0.1", "0.2", "0.3"), 0.6)
ROUNDS = Setting("max_iter", ("20", "30", "50", "100", "100", "200", "300", "500"), 0.75)
LEAVES = Setting("max_leaf_nodes", ("7", "15", "31", "63", "127"), 0.3)
NEAR = Setting("n_neighbors", ("1", "3", "5", "7", "10", "15", "25", "50"), 0.9)
CLOSER = Setting("weights", ('"distance"',), 0.3)
ALPHA = Setting("alpha", ("0.01", "0.1", "0.3", "1.0", "3.0", "10.0", "30.0", "100.0"), 0.8)
PENALTY = Setting("C", ("0.01", "0.1", "0.3", "1.0", "3.0", "10.0", "30.0"), 0.7)
LOOPS = Setting("max_iter", ("100", "200", "300", "500", "1000", "2000"), 0.7)
SIZES = Setting("hidden_layer_sizes", ("(32,)", "(50,)", "(64,)", "(100,)", "(128,)", "(64, 32)", "(128, 64)"), 0.8)
EPOCHS = Setting("max_iter", ("10", "20", "30", "50", "100", "200"), ALWAYS)
EARLY = Setting("early_stopping", ("True",), 0.25)
SMOOTH = Setting("alpha", ("0.01", "0.03", "0.1", "0.3", "1.0"), 0.6)

NUMBER: tuple[Answer, ...] = ("number", "chance")
CLASS: tuple[Answer, ...] = ("label", "chance", "chances")
LABEL: tuple[Answer, ...] = ("label",)

FOREST = (TREES, DEPTH, LEAF, FEATURES, Setting("n_jobs", ("-1",), 0.3), SEED)
BOOSTED = (
    TREES,
    STEPS,
    Setting("max_depth", ("2", "3", "4", "5", "6"), 0.4),
    Setting("subsample", ("0.5", "0.8"), 0.2),
    SEED,
)
HISTOGRAM = (ROUNDS, STEPS, LEAVES, SEED)
ABSOLUTE = Setting("loss", ('"absolute_error"',), 0.15)

TABULAR = (
    Family("LinearRegression", "linear_model", NUMBER, (), 0.55, cost=_linear, weight=1.5),
    Family("Ridge", "linear_model", NUMBER, (ALPHA,), 0.56, cost=_linear, weight=3.0),
    Family(
        "Lasso",
        "linear_model",
        NUMBER,
        (Setting("alpha", ("0.001", "0.01", "0.1", "1.0"), 0.9),),
        0.5,
        cost=_iterative,
        weight=0.5,
        scaled=True,
    ),
    Family("DecisionTreeRegressor", "tree", NUMBER, (DEPTH, LEAF, SEED), 0.6, cost=_tree, weight=1.5),
    Family("RandomForestRegressor", "ensemble", NUMBER, FOREST, 0.8, cost=_forest, weight=3.0),
    Family("ExtraTreesRegressor", "ensemble", NUMBER, FOREST, 0.79, cost=_forest, weight=1.5),
    Family("GradientBoostingRegressor", "ensemble", NUMBER, BOOSTED, 0.82, cost=_boosting, weight=1.5, dense=True),
    Family(
        "HistGradientBoostingRegressor",
        "ensemble",
        NUMBER,
        (ABSOLUTE, *HISTOGRAM),
        0.88,
        cost=_histogram,
        weight=4.0,
        dense=True,
    ),
    Family("KNeighborsRegressor", "neighbors", NUMBER, (NEAR, CLOSER), 0.62, cost=_neighbours, weight=1.5, scaled=True),
    Family(
        "SVR",
        "svm",
        NUMBER,
        (Setting("C", ("1.0", "3.0", "10.0", "100.0"), 0.8),),
        0.68,
        cost=_kernel,
        weight=0.7,
        scaled=True,
    ),
    Family(
        "MLPRegressor",
        "neural_network",
        NUMBER,
        (SIZES, EPOCHS, EARLY, SEED),
        0.74,
        cost=_network,
        weight=1.2,
        scaled=True,
    ),
    Family(
        "LogisticRegression", "linear_model", CLASS, (PENALTY, LOOPS), 0.66, cost=_iterative, weight=4.0, scaled=True
    ),
    Family("GaussianNB", "naive_bayes", CLASS, (), 0.4, cost=_linear, weight=1.5, dense=True),
    Family(
        "LinearDiscriminantAnalysis", "discriminant_analysis", CLASS, (), 0.64, cost=_linear, weight=1.0, dense=True
    ),
    Family("KNeighborsClassifier", "neighbors", CLASS, (NEAR, CLOSER), 0.68, cost=_neighbours, weight=2.0, scaled=True),
    Family("DecisionTreeClassifier", "tree", CLASS, (DEPTH, LEAF, SEED), 0.5, cost=_tree, weight=1.2),
    Family("RandomForestClassifier", "ensemble", CLASS, FOREST, 0.82, cost=_forest, weight=3.0),
    Family("ExtraTreesClassifier", "ensemble", CLASS, FOREST, 0.83, cost=_forest, weight=2.0),
    Family("GradientBoostingClassifier", "ensemble", CLASS, BOOSTED, 0.82, cost=_boosting, weight=0.7, dense=True),
    Family(
        "HistGradientBoostingClassifier", "ensemble", CLASS, HISTOGRAM, 0.85, cost=_histogram, weight=2.5, dense=True
    ),
    Family(
        "MLPClassifier",
        "neural_network",
        CLASS,
        (SIZES, EPOCHS, EARLY, SEED),
        0.76,
        cost=_network,
        weight=1.2,
        scaled=True,
    ),
    Family(
        "SVC",
        "svm",
        LABEL,
        (Setting("C", ("1.0", "3.0", "10.0", "30.0"), 0.7), Setting("kernel", ('"linear"', '"rbf"'), 0.25)),
        0.85,
        cost=_kernel,
        weight=2.0,
        scaled=True,
    ),
    Family("LinearSVC", "svm", LABEL, (PENALTY,), 0.66, cost=_iterative, weight=0.7, scaled=True),
    Family("RidgeClassifier", "linear_model", LABEL, (ALPHA,), 0.62, cost=_linear, weight=1.0),
    Family("NearestCentroid", "neighbors", LABEL, (), 0.45, cost=_linear, weight=1.0),
)

TEXT = (
    Family("LogisticRegression", "linear_model", CLASS, (PENALTY, LOOPS), 0.8, cost=_iterative, weight=5.0),
    Family("MultinomialNB", "naive_bayes", CLASS, (SMOOTH,), 0.7, cost=_linear, weight=3.0, counts=True),
    Family("ComplementNB", "naive_bayes", CLASS, (SMOOTH,), 0.68, cost=_linear, weight=1.5, counts=True),
    Family("BernoulliNB", "naive_bayes", CLASS, (SMOOTH,), 0.62, cost=_linear, weight=1.0, counts=True),
    Family(
        "SGDClassifier",
        "linear_model",
        CLASS,
        (
            Setting("loss", ('"log_loss"', '"modified_huber"'), ALWAYS),
            Setting("alpha", ("1e-5", "3e-5", "1e-4"), 0.6),
            SEED,
        ),
        0.74,
        cost=_linear,
        weight=2.0,
    ),
    Family("LinearSVC", "svm", LABEL, (PENALTY,), 0.8, cost=_iterative, weight=2.0),
    Family("RidgeClassifier", "linear_model", LABEL, (ALPHA,), 0.78, cost=_linear, weight=1.0),
    Family("Ridge", "linear_model", NUMBER, (ALPHA,), 0.74, cost=_linear, weight=2.0),
    Family(
        "RandomForestClassifier",
        "ensemble",
        CLASS,
        (TREES, LEAF, Setting("n_jobs", ("-1",), 0.3), SEED),
        0.68,
        cost=_forest,
        weight=1.0,
    ),
)


def draw(random: Random, families: tuple[Family, ...], answer: Answer) -> ModelTemplate:
    """A model that can give the answer, settings and all. For `chance` a regressor is the rarer choice."""
    fit = [family for family in families if answer in family.answers]
    weights = [family.weight * (1.0 if family.classifies or answer == "number" else 0.25) for family in fit]
    return settled(random, random.choices(fit, weights)[0])


def settled(random: Random, family: Family) -> ModelTemplate:
    """A model of the family with settings drawn anew."""
    chosen = [(one.name, random.choice(one.values)) for one in family.settings if random.random() < one.share]
    return ModelTemplate(family, tuple(chosen))
