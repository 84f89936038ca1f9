"""Results of a local model in the form of the embedded judge's: a score, and doubted stretches."""

from collections.abc import Sequence
from typing import NamedTuple

from ragmon.judges.grounding import GroundingResult
from ragmon.judges.grounding.scope import is_refusal
from ragmon.judges.grounding.words import sentences
from ragmon.records import Doubt

REASONS = (
    "unsupported_span",  # words that the model does not find in the context
    "unsupported_sentence",  # likewise, a sentence
    "contradicted",  # a sentence that the context contradicts
)

DOUBTED_FROM = 0.5
"""Chance of being unsupported from which the models' authors call a word or sentence so."""

_MOST_DOUBTS = 20
_DETAILS = {
    "unsupported_span": "the model finds no support for these words in the context",
    "unsupported_sentence": "the model finds no passage that supports this sentence",
    "contradicted": "the model reads a passage that says otherwise",
}


class TokenScore(NamedTuple):
    """One token of an answer."""

    start: int  # characters of the answer
    end: int
    unsupported: float  # chance, in [0, 1]


def reason_not_to_judge(answer: str, chunks: Sequence[str]) -> str | None:
    """One of the embedded judge's reasons, where there is nothing to judge; else None."""
    if not answer.strip():
        return "empty_answer"
    if not any(chunk.strip() for chunk in chunks):
        return "no_context"
    return "refusal" if is_refusal(answer, list(sentences(answer))) else None


def unjudged(reason: str, version: str) -> GroundingResult:
    """Result of an answer that cannot be judged."""
    return GroundingResult(None, reason, (), (), version)


def judged(score: float, doubts: Sequence[Doubt], version: str) -> GroundingResult:
    """Result of an answer; of many doubts the gravest are kept, in their order."""
    gravest = sorted(doubts, key=lambda doubt: doubt.support)[:_MOST_DOUBTS]
    score = min(max(score, 0.0), 1.0)
    kept = tuple(sorted(gravest, key=lambda doubt: doubt.start))
    return GroundingResult(score, None, kept, (), version)


def doubt(start: int, end: int, reason: str, support: float) -> Doubt:
    """A doubted stretch, explained."""
    return Doubt(start, end, reason, _DETAILS[reason], round(support, 4))


def doubted_spans(answer: str, tokens: Sequence[TokenScore]) -> list[Doubt]:
    """Runs of unsupported tokens, each with the support of its worst, without outer spaces."""
    doubts: list[Doubt] = []
    run: list[TokenScore] = []
    for token in [*tokens, TokenScore(len(answer), len(answer), 0.0)]:
        if token.unsupported >= DOUBTED_FROM:
            run.append(token)
        elif run:
            text = answer[run[0].start : run[-1].end]
            start = run[0].start + len(text) - len(text.lstrip())
            if text.strip():
                worst = max(token.unsupported for token in run)
                doubts.append(
                    doubt(start, start + len(text.strip()), "unsupported_span", 1.0 - worst)
                )
            run = []
    return doubts
