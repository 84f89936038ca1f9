"""The training: what it fits on made-up answers whose truth is known."""

import gzip

import msgspec
import numpy as np
import pytest

from ragmon.judges.grounding import GroundingJudge
from ragmon.judges.training import corpus, fit
from ragmon.judges.training.corpus import Example
from ragmon.judges.training.grounding import main

FACTS = ["apples grow red", "rivers flow north", "towers stand tall", "foxes hunt mice"]
FICTIONS = ["comets sing opera", "bankers eat marble", "glaciers write poems", "owls sell maps"]


def example(number, *, hallucinated):
    claim = (FICTIONS if hallucinated else FACTS)[number % 4]
    return Example(
        id=f"{number}{hallucinated}",
        group=f"g{number % 10}",
        query="What is told?",
        context=[f"It is told that {fact} in region {number}." for fact in FACTS],
        answer=f"People say that {claim}.",
        hallucinated=hallucinated,
        subset="LFQA",
    )


EXAMPLES = [example(n, hallucinated=h) for n in range(40) for h in (False, True)]


@pytest.fixture(scope="module")
def artefact():
    return fit.fit([EXAMPLES], version="test")


def test_the_fit_tells_fact_from_fiction(artefact):
    judge = GroundingJudge(artefact)
    right = judge.score("", EXAMPLES[0].answer, EXAMPLES[0].context).score
    wrong = judge.score("", EXAMPLES[1].answer, EXAMPLES[1].context).score
    assert right > 0.5 > wrong


def test_no_weight_is_negative_and_common_words_weigh_less(artefact):
    assert min(artefact.weights.values()) >= 0.0
    assert sum(artefact.weights.values()) == pytest.approx(1.0, abs=1e-3)
    percent = fit.rarity(["the tower and a fox"] * 3 + [f"the tower {n}" for n in range(20)])
    assert "fox" not in percent  # seen in one distinct chunk: rarest
    assert 10 <= percent["tower"] < 30


def test_regression_finds_the_coefficients():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, 3)) * [1.0, 5.0, 0.2] + [0.0, 3.0, -1.0]
    odds = 1.5 * x[:, 0] - 2.0 * x[:, 2] + 0.5
    y = (rng.random(len(x)) < 1.0 / (1.0 + np.exp(-odds))).astype(float)
    coefficients, intercept = fit.ridge_logistic(x, y, np.ones(len(x)), ridge=0.0)
    assert coefficients[0] == pytest.approx(1.5, abs=0.1)
    assert coefficients[1] == pytest.approx(0.0, abs=0.02)
    assert coefficients[2] == 0.0  # would be negative
    assert intercept == pytest.approx(2.4, abs=0.2)  # 0.5 and the held back 2.0


@pytest.mark.parametrize("seed", [0, 1])
def test_joined_claims_are_wrong_when_any_is(seed):
    answers = corpus.join_claims(EXAMPLES, 200, seed=seed)
    for answer in answers:
        holds_fiction = any(fiction in answer.answer for fiction in FICTIONS)
        assert answer.hallucinated == holds_fiction
        assert 2 <= answer.answer.count("People say") <= 8
    assert 0.25 < np.mean([answer.hallucinated for answer in answers]) < 0.55


def test_a_group_is_never_split():
    train, held = corpus.split(EXAMPLES, lambda e: corpus.fold_of(e.group, 5) == 0)
    assert train
    assert held
    assert {e.group for e in train}.isdisjoint(e.group for e in held)


def test_the_script_writes_the_same_artefact_twice(tmp_path):
    for path in corpus.FILES.values():
        file = tmp_path / path
        file.parent.mkdir()
        file.write_bytes(gzip.compress(b"\n".join(map(msgspec.json.encode, EXAMPLES))))
    for name in ("first", "second"):
        assert main(["--data", str(tmp_path), "--output", str(tmp_path / name)]) == 0
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_without_data_the_script_says_what_to_do(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv(corpus.DATA_VARIABLE, str(tmp_path))
    with pytest.raises(SystemExit):
        main([])
    assert corpus.DATA_VARIABLE in capsys.readouterr().err
