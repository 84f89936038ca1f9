"""Texts that are nearly the same, and the twin that took over."""

import msgspec
import numpy as np
import pytest

from ragmon.documents.tallies import DayCounts
from ragmon.documents.twins import TextSignatures, TwinPair, signature_of, stale_twins

RNG = np.random.default_rng(1)
WORDS = [f"word{number}" for number in range(400)]


def text(seed, size=120):
    return " ".join(np.random.default_rng(seed).choice(WORDS, size))


def edited(original, words):
    """The same with some words in its middle replaced."""
    parts = original.split()
    return " ".join([*parts[:40], *[f"new{at}" for at in range(words)], *parts[40 + words :]])


def signatures(*texts):
    found = TextSignatures()
    for number, one in enumerate(texts):
        found.add(number, msgspec.msgpack.encode(one))
    return found


def test_an_edited_text_is_a_twin_and_another_is_not():
    original = text(1)
    pairs = signatures(original, text(2), edited(original, 5), text(3)).pairs()
    assert [(pair.one, pair.other) for pair in pairs] == [(0, 2)]
    assert pairs[0].similarity == pytest.approx(0.87, abs=0.12)


def test_the_estimate_is_the_share_of_common_runs():
    original = text(4, 400)
    changed = edited(original, 40)
    runs = [
        {tuple(words[at : at + 3]) for at in range(len(words) - 2)}
        for words in (original.split(), changed.split())
    ]
    exact = len(runs[0] & runs[1]) / len(runs[0] | runs[1])
    equal = (signature_of(original) == signature_of(changed)).mean()
    assert equal == pytest.approx(exact, abs=0.15)


def test_case_and_spaces_do_not_matter_and_texts_without_spaces_work():
    original = text(5)
    assert signatures(original, original.upper().replace(" ", "\n ")).pairs()
    chinese = "退款政策规定客户可以在三十天内退回商品并获得全额退款请保留收据"
    assert signatures(chinese, chinese + "谢谢").pairs()


@pytest.mark.parametrize("short", ["", "Contact", None], ids=["empty", "a heading", "no text"])
def test_short_texts_have_no_twins(short):
    assert signatures(short, short).pairs() == []


def test_a_thousand_texts_have_only_the_twins_that_were_made():
    texts = [text(seed, 60) for seed in range(1_000)]
    texts += [edited(texts[at], 2) for at in range(20)]
    pairs = {(pair.one, pair.other) for pair in signatures(*texts).pairs()}
    assert pairs <= {(at, 1_000 + at) for at in range(20)}
    assert len(pairs) >= 19


def cited(*days):
    """Citations: (document, day, times)."""
    counts = DayCounts()
    for document, day, times in days:
        counts.add(np.full(times, document), np.full(times, day))
    return counts


PAIR = [TwinPair(0, 1, 0.9)]


def test_the_twin_that_is_no_longer_cited_is_stale_and_the_day_is_named():
    switch = cited((1, 10, 9), (1, 11, 8), (0, 12, 7), (0, 13, 9), (0, 11, 1))
    (found,) = stale_twins(PAIR, switch)
    assert (found.stale, found.current, found.day) == (1, 0, 12)
    assert found.cited == (17, 16)


@pytest.mark.parametrize(
    "days",
    [
        pytest.param([(0, 10, 9), (1, 10, 9), (0, 11, 9), (1, 11, 9)], id="both all the time"),
        pytest.param([(0, 10, 9), (0, 11, 9), (1, 11, 9)], id="one goes on"),
        pytest.param([(0, 10, 2), (1, 11, 2)], id="too few to tell"),
        pytest.param([(0, 10, 30)], id="the other was never cited"),
    ],
)
def test_twins_that_share_their_time_are_not_stale(days):
    assert stale_twins(PAIR, cited(*days)) == []
