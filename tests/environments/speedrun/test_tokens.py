"""The tokenizer: nothing is lost, merges are those of the obvious algorithm, the same everywhere."""

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rewardrate.environments.speedrun import tokens
from rewardrate.environments.speedrun.tokens import BYTES, END, Tokenizer, learn

TEXT = "In the beginning God created the heaven and the earth. And the earth was without form, and void; " * 3


@given(st.text())
def test_every_text_comes_back(text):
    tokenizer = learn([TEXT], 300)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert END not in tokenizer.encode(text)


def slow_merges(text, count):
    """The commonest pair, counted anew each time."""
    words = [[byte + 1 for byte in word] for word in tokens.WORD.findall(text.encode())]
    merges = []
    for _ in range(count):
        pairs = Counter(pair for word in words for pair in pairwise(word))
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        for word in words:
            at = 0
            while at < len(word) - 1:
                if (word[at], word[at + 1]) == best:
                    word[at : at + 2] = [BYTES + len(merges)]
                at += 1
    return tuple(merges)


def test_merges_are_those_of_the_slow_obvious_way():
    text = TEXT + "aaaa aaa banana bananas " * 5
    assert learn([text], 257 + 40).merges == slow_merges(text, 40)


def test_a_vocabulary_is_never_larger_than_asked_and_stops_when_nothing_repeats():
    assert learn([TEXT], 300).size == 300
    assert learn(["abc"], 300).size == 257
    assert learn([], 300).size == 257


def test_merged_text_takes_fewer_tokens():
    tokenizer = learn([TEXT], 320)
    assert len(tokenizer.encode(TEXT)) < len(TEXT) / 2
    assert tokenizer == Tokenizer(tokenizer.merges)
