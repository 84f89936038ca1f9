"""Embedded judge on answers in thirteen languages, each corrupted by rule: what it ranks right."""

import re
from collections import defaultdict
from typing import NamedTuple

import pytest

from ragmon.judges import grounding
from ragmon.judges.grounding.language import language_of
from tests.support.paths import DATA

MEASURED = ["de", "fr", "es", "pt", "it", "nl", "pl", "ru", "ko", "ar"]
MOST_UNSCORED = dict.fromkeys(MEASURED, 1) | {"es": 0}
"""Of 20 answers those taken for another language than their passage."""

RULES = ("number", "name", "addition")
UNMEASURED = ["zh", "ja", "hi"]


class Fact(NamedTuple):
    """A passage, a faithful answer in other words, and the name that both hold."""

    name: str
    passage: str
    answer: str


def facts() -> dict[str, list[Fact]]:
    by_language: dict[str, list[Fact]] = defaultdict(list)
    for line in (DATA / "languages.tsv").read_text("utf-8").splitlines():
        language, name, passage, answer = line.split("\t")
        by_language[language].append(Fact(name, passage, answer))
    return by_language


FACTS = facts()


def corrupted(fact: Fact, other: Fact) -> dict[str, str]:
    """The answer with another number, another name, and another fact added."""
    return {
        "number": re.sub(r"\d+", lambda found: str(int(found[0]) + 3), fact.answer),
        "name": fact.answer.replace(fact.name, other.name),
        "addition": f"{fact.answer} {other.answer}",
    }


def scores(language: str) -> dict[str, list[float]]:
    """Scores of the faithful answers and of the corrupted ones by rule; zeros by reason of none."""
    judge, ofs = grounding.load(), FACTS[language]
    found: dict[str, list[float]] = defaultdict(list)
    for fact, other in zip(ofs, [*ofs[1:], ofs[0]], strict=True):
        answers = {"faithful": fact.answer, **corrupted(fact, other)}
        assert len(set(answers.values())) == 4
        for rule, answer in answers.items():
            result = judge.score("?", answer, [fact.passage])
            if result.score is None:
                found[result.reason_none].append(0.0)
            else:
                found[rule].append(result.score)
    return found


def auroc(good: list[float], bad: list[float]) -> float:
    """Share of pairs in which the good answer scores higher; a tie counts half."""
    pairs = [(a > b) + 0.5 * (a == b) for a in good for b in bad]
    return sum(pairs) / len(pairs)


@pytest.mark.parametrize(
    "text",
    [
        "El plazo de devolución es de 30 días desde la compra.",
        "El pedido se envía en 24 horas y llega en tres días.",
        "Puede pagar con tarjeta o por transferencia.",
        "La garantía cubre los defectos de fábrica durante dos años.",
        "En Tampere trabajan 830 personas en tres turnos y producen papel.",
        "Como máximo se permiten dos maletas por persona.",
    ],
)
def test_short_spanish_is_not_taken_for_another_language(text):
    assert language_of(text) in ("es", None)


@pytest.mark.parametrize(
    "text",
    [
        "O prazo de devolução é de 30 dias a partir da compra.",
        "O pedido é enviado em 24 horas e chega em três dias.",
        "O escritório de Lisboa abre às nove e fecha às seis.",
        "Não se aceitam devoluções de produtos abertos.",
    ],
)
def test_short_portuguese_is_still_known(text):
    assert language_of(text) == "pt"


def test_it_ranks_corrupted_answers_below_faithful_ones():
    print("\nlanguage | all | number | name | addition | not scored")
    for language in MEASURED:
        found = scores(language)
        good = found.pop("faithful")
        unscored = len(found.pop("language", []))
        each = [auroc(good, found[rule]) for rule in RULES]
        everything = auroc(good, [score for bad in found.values() for score in bad])
        figures = [f"{value:.2f}" for value in (everything, *each)]
        print(" | ".join([language, *figures, str(unscored)]))
        assert everything >= 0.9, language
        assert unscored <= MOST_UNSCORED[language], language


@pytest.mark.parametrize("language", UNMEASURED)
def test_it_says_why_it_cannot_measure(language):
    for fact in FACTS[language]:
        result = grounding.load().score("?", fact.answer, [fact.passage])
        assert (result.score, result.reason_none) == (None, "script")
