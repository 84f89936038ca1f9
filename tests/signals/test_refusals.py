"""Answers that decline, in fourteen languages: found by phrases, and the signals made of them."""

import random
import time
import unicodedata
from collections import Counter

import numpy as np
import pytest

from ragmon.records import QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.catalogue import build
from ragmon.signals.refusal_phrases import (
    _LANGUAGES,
    _opening,
    _opens_declining,
    decline_each,
    declines,
)
from tests.support.examples import chunks, record
from tests.support.paths import DATA
from tests.support.patterns import MOST_S, slowest

OPTIONS = SignalOptions(relevant_score=0.5)
CATALOGUE = build(OPTIONS)
DECLINES = "The context does not mention the price."
LANGUAGES = ["en", "de", "fr", "es", "pt", "it", "nl", "pl", "ru", "zh", "ja", "ko", "ar", "hi"]


def examples():
    for line in (DATA / "refusals.tsv").read_text("utf-8").splitlines():
        language, refuses, text = line.split("\t")
        yield language, refuses == "1", text


def test_precision_and_recall_on_answers_written_for_it():
    cells = Counter((lang, truth, declines(text)) for lang, truth, text in examples())
    assert {lang for lang, _, _ in cells} == set(LANGUAGES)
    print()
    for language in LANGUAGES:
        right, missed = cells[language, True, True], cells[language, True, False]
        false, rest = cells[language, False, True], cells[language, False, False]
        print(f"{language}: recall {right} of {right + missed}, false {false} of {false + rest}")
        assert right / (right + missed) >= 0.8, language
        assert false <= 1, language
    right = sum(n for (_, truth, found), n in cells.items() if truth and found)
    false = sum(n for (_, truth, found), n in cells.items() if found and not truth)
    refusals = sum(n for (_, truth, _), n in cells.items() if truth)
    print(f"all: precision {right / (right + false):.3f}, recall {right / refusals:.3f}")
    assert right / (right + false) >= 0.95
    assert right / refusals >= 0.95


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param("", False, id="nothing"),
        pytest.param(DECLINES, True, id="it declines"),
        pytest.param("I don’t know.", True, id="with a typographer's apostrophe"),
        pytest.param("Daarover staat er niets.", True, id="with a full stop behind the negation"),
        pytest.param(DECLINES + " It says:" + " word" * 100, False, id="it goes on to say a lot"),
        pytest.param("It costs 5 euros. " * 14 + DECLINES, False, id="it declines in the end"),
    ],
)
def test_what_declines_is_short_and_opens_so(answer, expected):
    assert declines(answer) is expected


def test_refusals_with_accents_written_apart_are_seen():
    texts = [text for _, _, text in examples()]
    apart = [unicodedata.normalize("NFD", text[:180]) for text in texts]
    composed = [unicodedata.normalize("NFC", text[:200]) for text in apart]
    assert any(one != other for one, other in zip(apart, composed, strict=True))
    near = [text for text in apart if len(text) <= 200]
    assert decline_each(near) == decline_each([unicodedata.normalize("NFC", each) for each in near])


def test_many_answers_at_once_decline_as_each_by_itself():
    rng = random.Random(7)
    texts = [text for _, _, text in examples()]
    words = [word for text in texts for word in text.split()] + list("’'.!?\n") + ["\udc80"]
    spliced = [
        "".join((first[: rng.randrange(len(first))], second[rng.randrange(len(second)) :]))
        for first, second in (rng.choices(texts, k=2) for _ in range(1_000))
    ]
    mixed = [" ".join(rng.choices(words, k=rng.randrange(1, 25))) for _ in range(1_000)]
    answers = ["", *texts, *map(str.upper, texts), *spliced, *mixed]
    rng.shuffle(answers)
    expected = [_opens_declining(_opening(answer[:200])) for answer in answers]
    assert expected.count(True) > 500
    assert expected.count(False) > 500
    assert max(map(len, answers)) <= 500
    assert decline_each(answers) == expected
    assert [declines(answer) for answer in answers] == expected


def observed(query: QueryRecord, name: str, **labels: str) -> float | None:
    value = CATALOGUE.observe([query])[0, CATALOGUE.index(name, **labels)]
    return None if np.isnan(value) else float(value)


@pytest.mark.parametrize(
    ("fields", "refusal", "missing", "by_label", "by_score"),
    [
        pytest.param({}, None, None, None, None, id="no answer"),
        pytest.param({"answer": "Five.", "error": "E"}, None, None, None, None, id="it failed"),
        pytest.param({"answer": "Five."}, 0.0, None, None, None, id="chunks not recorded"),
        pytest.param(
            {"answer": DECLINES, "chunks": []}, 1.0, 0.0, None, None, id="rightly, of nothing"
        ),
        pytest.param(
            {"answer": "Five.", "chunks": []}, 0.0, 1.0, None, None, id="an answer out of nothing"
        ),
        pytest.param(
            {"answer": DECLINES, "chunks": chunks("a", scores=(0.9,)), "relevant_ids": ["a"]},
            1.0,
            None,
            1.0,
            1.0,
            id="wrongly, by both evidences",
        ),
        pytest.param(
            {"answer": DECLINES, "chunks": chunks("a", scores=(0.1,)), "relevant_ids": ["z"]},
            1.0,
            None,
            None,
            None,
            id="rightly, of what is not relevant",
        ),
        pytest.param(
            {"answer": "Five.", "chunks": chunks("a", scores=(0.9,))},
            0.0,
            None,
            None,
            0.0,
            id="an answer where it could be given",
        ),
    ],
)
def test_signals(fields, refusal, missing, by_label, by_score):
    query = record(**fields)
    assert observed(query, "refusal") == refusal
    assert observed(query, "missing_refusal") == missing
    assert observed(query, "false_refusal", evidence="label") == by_label
    assert observed(query, "false_refusal", evidence="score") == by_score


def test_no_text_takes_more_than_linear_time():
    patterns = [pattern for language in _LANGUAGES for pattern in language.patterns]
    assert len(patterns) > 40
    for pattern in patterns:
        took, size, text = slowest(pattern)
        assert took < MOST_S, f"{took:.2f} s for {size} characters like {text!r}"


def test_negations_of_many_languages_cost_little_more_than_other_text():
    """10,000 such answers, half a megabyte of gzip, held the writer for 7 s."""
    rng = random.Random(3)
    words = [word for language in _LANGUAGES for word in (*language.negations, *language.subjects)]
    mixed = [" ".join(rng.choices(words, k=40))[:200] for _ in range(1_000)]
    ascii_only = [text.encode("ascii", "ignore").decode() for text in mixed]
    decline_each(mixed[:1])
    for answers in (mixed, ascii_only):
        began = time.process_time()
        decline_each(answers)
        assert time.process_time() - began < 0.25  # 0.4 to 0.8 before, 0.06 now
