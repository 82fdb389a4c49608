"""The corpus that `tiny` learns from: scripts for machine-learning tasks, good and bad, and revisions of them.

`brief` says what a prompt tells, `choices` what is decided, `drawing` how, `scripts` writes it down, `mistakes` breaks
it, `revisions` changes one decision, `examples` puts prompt and answer together. Everything is drawn and written by
this program; nothing is taken from anywhere.
"""

from rewardrate.pretraining.corpus.brief import Brief
from rewardrate.pretraining.corpus.examples import Corpus, Example, example, stream
from rewardrate.pretraining.corpus.shipped import HELD_OUT

__all__ = ["HELD_OUT", "Brief", "Corpus", "Example", "example", "stream"]
