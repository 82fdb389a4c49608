"""Whatever a record holds, the page is made: no exception, ever, and nothing in it is markup but our own."""

import html.parser
import math
import random
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rewardrate.attempt import Outcome, Proposal, RateEstimate
from rewardrate.errors import InputError
from rewardrate.reports import evaluation, texts
from rewardrate.reports.document import escape
from rewardrate.reports.page import page
from rewardrate.reports.redaction import redacted, redacted_settings
from rewardrate.reports.run import gather
from rewardrate.runlog import Origin, RunLog

MARK = "hostile"  # no word of ours: an element, attribute or script that holds it came from the record
HOSTILE = [
    f"<script>alert('{MARK}')</script>",
    f"</script><img src=x onerror={MARK}>",
    f'" onload="{MARK}" x="',
    f"<!--<{MARK}><![CDATA[",
    f"&lt;{MARK}&gt;&#60;{MARK}>",
    "nul \0 in the middle",
    "lone \ud800 surrogate \udcff",
    "\x1b[31mred\x1b[0m\x1b]0;title\x07\x9b31m",
    "\u202eright to left\u202c \u2028 \u2029 \ufeff",
    "\r\n\r\n\t\v\f",
    "https://user:password@host/?api_key=1",
    "```\n<|end|>",
]
LONG = [
    "a" * 1_000_000,
    "a." * 500_000 + "://",
    "\n" * 300_000,
    "?" + "api_key" * 150_000,
    "<b>" * 300_000,
    "a = " + "[" * 50_000,
]
STATUSES = ["ok", "format", "error", "timeout", "memory", "killed", "no-submission", "bad-submission", "no-gain"]
STATUSES += ["sandbox-failure", "cadence-violation"]
NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.1, 1e-9, 1e9, -1e9, 3.5, 1e4, 17.25]


class Draw:
    """Random records; drawn by one seed, for drawing each of some hundred values by hypothesis takes too long."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def one(self, values):
        return self.random.choice(values)

    def text(self):
        wild = "".join(chr(self.one([self.random.randrange(256), self.random.randrange(0x110000)])) for _ in range(12))
        return self.one([self.one(HOSTILE), wild, "", "plain words"])

    def number(self):
        return self.one([self.random.random(), 100 * self.random.random(), self.one(NUMBERS)])

    def outcome(self):
        return Outcome(
            valid=self.one([True, False]),
            reward=self.number(),
            score=self.one([None, self.number(), math.nan, math.inf, -math.inf]),
            seconds=self.one([0.1 + abs(self.number()), self.number()]),
            status=self.one([self.one(STATUSES), self.text()]),
            message=self.text(),
            code=self.text(),
            clock=self.one(["wall", "cpu", "warm", self.text()]),
            wall_seconds=self.number(),
            cpu_seconds=self.number(),
            peak_memory_bytes=self.one([0, 2**30, -(2**63), 2**63 - 1]),
            level=self.text(),
            contaminated=self.one([True, False]),
            trains=self.one([None, True, False]),
            output=self.text(),
            rank_key=self.one([None, self.number()]),
        )

    def record(self):
        """What `write` needs for one run: facts, steps of rows, notes, config."""
        batch = self.random.randint(1, 3)
        facts = {name: self.text() for name in ("policy", "clock", "machine", "direction") if self.one([True, False])}
        facts |= {"task": self.text(), "arm": self.one(["rpg", "vanilla", self.text()]), "seed": self.text()}
        steps = []
        for _ in range(self.random.randint(0, 3)):
            rows = [(self.outcome(), self.text(), self.text()) for _ in range(batch)]
            steps.append((rows, self.number(), {self.text(): self.one([self.number(), math.nan])}))
        return facts, steps, [(self.text(), self.text())], self.text()


def origin(word, parent):
    """The word as prompt and, as far as a name may be it, as the seed's name."""
    seed = word.encode("utf-8", "ignore").decode()[:200] if parent is None else ""
    return Origin([{"role": "user", "content": word}], parent, seed)


def write(folder, record):
    facts, steps, notes, config = record
    with RunLog.create(folder, config.encode("utf-8", "replace").decode(), facts) as log:
        for step, (rows, rate, metrics) in enumerate(steps, start=1):
            known = (step - 1) * len(rows)
            parents = [None if not known else 1 + place % known for place in range(len(rows))]
            log.begin_step(
                step,
                [Proposal(row[1]) for row in rows],
                [origin(row[2], parent) for row, parent in zip(rows, parents, strict=True)],
            )
            for place, (outcome, _, _) in enumerate(rows):
                log.outcome(step, place, outcome)
            left = [None if row[0].status == "sandbox-failure" else rate for row in rows]
            log.commit_step(step, RateEstimate(rate, rate, rate, rate, step), left, [0.0] * len(rows), metrics=metrics)
        for kind, message in notes:
            log.note(kind, message)


class Markup(html.parser.HTMLParser):
    """Tags, attributes and scripts of a page."""

    def __init__(self, document):
        super().__init__(convert_charrefs=True)
        self.markup, self.scripts, self.inside = [], [], False
        self.feed(document)

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        self.markup += [tag, *names]
        self.inside = tag == "script" and ("type", "application/json") not in attributes

    def handle_data(self, data):
        if self.inside:
            self.scripts.append(data)
            self.inside = False

    def handle_comment(self, data):
        self.markup.append(data)


def check_page(document):
    found = Markup(document)
    assert not [name for name in found.markup if MARK in name or name.startswith("on")]
    assert len(found.scripts) == 1, "only our own script runs"
    assert MARK not in found.scripts[0]
    document.encode("utf-8")
    assert "\0" not in document
    assert "\x1b" not in document


@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1))
def test_a_page_is_made_of_any_record_and_holds_no_markup_of_it(seed):
    draw = Draw(seed)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for run in range(draw.random.randint(1, 2)):
            write(folder / f"run-{run}", draw.record())
        try:
            runs, problems = gather([folder])
        except InputError:
            return  # not one finished step: said in one line
        check_page(page(runs, HOSTILE[0], problems=problems, live=True))
        for run in runs:
            evaluation.chains({name: [getattr(row, name) for row in run.attempts] for name in evaluation.COLUMNS})


@given(st.integers(0, 2**32 - 1).map(lambda seed: Draw(seed).text()))
@example("\0\x1b[31m\ud800<b>&")
def test_escaped_text_is_only_text(word):
    found = escape(word)
    assert not set(found) & set("<>\"'\0\x1b")
    found.encode("utf-8")


@pytest.mark.parametrize("words", [HOSTILE, LONG], ids=["hostile", "long"])
def test_such_texts_everywhere_in_a_record_are_shown_as_text(words, tmp_path):
    """Each word as script, message, output, status, reply, prompt, seed and metric of an attempt of its own, and as a fact of the run."""
    rows = []
    for word in words:
        rows += [(Outcome(True, 0.5, 0.8, 1.0, word, word, word, word, level=word, output=word), word, word)]
        rows += [(Outcome(False, 0.0, None, 1.0, word, "error", word, output=word), word, word)]
    facts = dict(zip(("task", "seed", "policy", "clock", "started", "machine"), words, strict=False)) | {"arm": "rpg"}
    metrics = dict.fromkeys(words, 1.0)
    write(tmp_path / "run", (facts, [(rows, 0.5, metrics)] * 2, [(word, word) for word in words], words[-1]))
    runs, problems = gather([tmp_path / "run"])
    check_page(page(runs, words[0], problems=problems))


@pytest.mark.parametrize("word", [*HOSTILE, *LONG], ids=range(len(HOSTILE) + len(LONG)))
def test_no_text_makes_hiding_secrets_or_packing_slow(word):
    start = time.process_time()
    redacted(word)
    redacted_settings(word)
    packer = texts.Packer()
    packer.number(word, texts.CODE)
    packer.pack()
    assert time.process_time() - start < 5, "linear in the text's length; quadratic would be hours"
