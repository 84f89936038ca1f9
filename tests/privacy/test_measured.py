"""Recall and precision of redaction, by kind, on sentences made by a seed; as in the docs."""

import re
from collections import Counter
from pathlib import Path

import pytest

from ragmon.privacy import redact_text
from tests.support.personal_data import CARDS, IBANS, KEYS, PHONES, Sample, samples

SAMPLES = samples()
PLACEHOLDER = re.compile(r"\[(email|phone|card|iban|key|token|password|ssn|account)\]")
LEAST_RECALL = {  # share of the values of which no three quarters survive
    "email": 1.0, "phone": 0.995, "card": 1.0, "iban": 1.0, "key": 1.0, "token": 1.0,
    "password": 1.0, "ssn": 1.0,
}  # fmt: skip
LEAST_PRECISION = dict.fromkeys(LEAST_RECALL, 1.0)  # of placeholders, in sentences without data
PAGE = Path(__file__).parents[2] / "deploy" / "docs" / "guides" / "privacy.md"


def is_gone(sample: Sample, redacted: str) -> bool:
    """No three quarters of the secret part are left, from either end."""
    secret = sample.value
    if sample.form in ("azure", "cohere-named"):
        secret = secret.partition("=")[2]
    elif sample.form == "telegram":
        secret = secret.partition(":")[2]
    quarter = len(secret) // 4
    return secret[quarter:] not in redacted and secret[:-quarter] not in redacted


def measured():
    """(recall, precision) by kind."""
    hits, misses, wrong = Counter(), Counter(), Counter()
    for sample in SAMPLES:
        redacted = redact_text(sample.text)
        if sample.kind:
            (hits if is_gone(sample, redacted) else misses)[sample.kind] += 1
        elif redacted != sample.text:
            wrong.update(PLACEHOLDER.findall(redacted))
    return {
        kind: (hits[kind] / (hits[kind] + misses[kind]), hits[kind] / (hits[kind] + wrong[kind]))
        for kind in hits | misses | wrong
    }


def test_the_set_is_as_large_as_it_says():
    kinds = Counter(sample.kind for sample in SAMPLES)
    assert (len(PHONES), len(IBANS), len(CARDS), len(KEYS)) == (16, 14, 8, 28)
    assert kinds[""] >= 300
    assert min(kinds.values()) >= 8
    assert set(kinds) - {""} == set(LEAST_RECALL)


@pytest.mark.parametrize("kind", LEAST_RECALL)
def test_recall_and_precision(kind):
    recall, precision = measured()[kind]
    assert recall >= LEAST_RECALL[kind]
    assert precision >= LEAST_PRECISION[kind]


def test_the_measure_sees_a_miss():
    sample = Sample("phone", "US", "call 415-555-2671", "415-555-2671")
    assert not is_gone(sample, sample.text)
    assert not is_gone(sample, "call 415-555-26[phone]")
    assert is_gone(sample, "call [phone]")


def test_the_documentation_has_the_figures():
    kinds = Counter(sample.kind for sample in SAMPLES)
    rows = {
        cells[1].strip("` "): [cell.strip() for cell in cells[2:5]]
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if (cells := line.split("|"))[0] == "" and len(cells) == 7
    }
    for kind, (recall, precision) in measured().items():
        assert rows[kind] == [str(kinds[kind]), f"{recall:.3f}", f"{precision:.3f}"], kind
