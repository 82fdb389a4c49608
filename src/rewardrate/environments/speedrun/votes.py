"""The model judge: three votes on one script. Paper, appendix "Delta Proposals": any violation makes it invalid.

    any usable vote says modified   refused
    some say intact, none modified  it may run
    no usable vote                  the infrastructure's fault: not charged

(The authors' code wants two votes and a majority, and lets a script run when there is no vote.)
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Literal

from rewardrate.chat import Chat, EndpointError, EndpointSettings, GivenUp, Refused
from rewardrate.config import AtLeast
from rewardrate.environments.speedrun import prompts
from rewardrate.environments.speedrun.hardware import Hardware
from rewardrate.environments.speedrun.race import Race
from rewardrate.environments.speedrun.replies import PaidReplies

Ruling = Literal["intact", "modified", "no-vote"]
READ = 20_000  # characters of a reply in which the vote is looked for
OBJECTS = 200


@dataclass(frozen=True)
class VoteSettings(EndpointSettings):
    """The model that judges; the defaults are the paper's, and where it is silent the implementer's."""

    temperature: Annotated[float, AtLeast(0)] | None = 0.0
    new_tokens: Annotated[int, AtLeast(1)] = 16_384
    "A model that thinks first needs them; the authors' code allows 300, in which such a model says nothing."
    timeout_seconds: Annotated[float, AtLeast(0.01)] = 240.0
    retries: Annotated[int, AtLeast(0)] = 2
    parallel: Annotated[int, AtLeast(1)] = 24
    votes: Annotated[int, AtLeast(1)] = 3
    "How often each script is judged."


@dataclass(frozen=True)
class Vote:
    """One answer of the judge; not usable when it holds no verdict."""

    verdict: Ruling
    reason: str


@dataclass(frozen=True)
class Judgement:
    """What the votes on one script come to."""

    ruling: Ruling
    reason: str
    votes: tuple[Vote, ...]


class ModelJudge:
    """Asks a chat model to judge scripts."""

    def __init__(self, race: Race, settings: VoteSettings, hardware: Hardware) -> None:
        self.race, self.settings, self.hardware = race, settings, hardware
        self._chat = Chat(settings)
        self.replies = PaidReplies()

    def judge(self, codes: Sequence[str]) -> list[Judgement]:
        """All votes on all scripts, `parallel` at once. Nothing is raised: a vote that fails is not usable."""
        if not codes:
            return []
        stop, votes = threading.Event(), self.settings.votes
        asked = [(code, number) for code in codes for number in range(votes)]
        with ThreadPoolExecutor(max_workers=min(self.settings.parallel, len(asked))) as pool:
            cast = [vote.result() for vote in [pool.submit(self._vote, *one, stop) for one in asked]]
        return [count(cast[place * votes : (place + 1) * votes]) for place in range(len(codes))]

    def _vote(self, code: str, number: int, stop: threading.Event) -> Vote:
        try:
            request = self._chat.request(prompts.vote(self.race, code, self.hardware), number)
            return read(self.replies.ask(self._chat, request, stop, lambda text: read(text).verdict != "no-vote"))
        except (Refused, GivenUp) as refusal:
            return Vote("no-vote", f"not answered: {refusal}".rstrip(": "))
        except Exception as error:
            stop.set()  # the votes that wait are tried once each
            return Vote("no-vote", str(error) if isinstance(error, EndpointError) else type(error).__name__)


def count(votes: Sequence[Vote]) -> Judgement:
    """What votes come to: any `modified` refuses, and at least one must be usable."""
    for ruling in ("modified", "intact"):
        for vote in votes:
            if vote.verdict == ruling:
                return Judgement(vote.verdict, vote.reason, tuple(votes))
    why = votes[0].reason if votes else "no judge was asked"
    return Judgement("no-vote", f"no usable vote: {why}", tuple(votes))


def read(reply: str) -> Vote:
    """The vote in a reply: its last JSON object with a verdict. Anything else is no vote."""
    text = reply[-READ:]
    decoder = json.JSONDecoder()
    place, seen = text.rfind("{"), 0
    while place >= 0 and seen < OBJECTS:
        seen += 1
        try:
            found, _ = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict) and found.get("verdict") in ("intact", "modified"):
            reason = found.get("reason")
            return Vote(found["verdict"], " ".join(reason.split())[:300] if isinstance(reason, str) else "")
        place = text.rfind("{", 0, place)
    return Vote("no-vote", "the reply holds no verdict")
