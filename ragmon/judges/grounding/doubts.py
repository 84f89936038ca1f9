"""Doubted sentences of an answer, each with a reason that a reader can check."""

from collections.abc import Sequence

from ragmon.judges.grounding.evidence import SentenceEvidence
from ragmon.records import Doubt

REASONS = (
    "negation_mismatch",  # the matching sentence of the context is negated and this is not, or so
    "novel_number",  # a number or date that the context does not hold
    "novel_name",  # a capitalised word that the context does not hold
    "novel_terms",  # other words that the context does not hold
    "scattered",  # the words are there, but no two sentences of the context hold them together
)

_WEAK = 0.75  # support below which a novel number or name is reported, even if the words suffice


def doubts(
    evidence: Sequence[SentenceEvidence], supports: Sequence[float], threshold: float
) -> tuple[Doubt, ...]:
    """The doubted sentences in order, each with its strongest reason."""
    doubted = []
    for line, support in zip(evidence, supports, strict=True):
        reason = _reason(line, support, threshold)
        if reason is not None:
            name, detail = reason
            doubted.append(Doubt(line.start, line.end, name, detail, round(support, 4)))
    return tuple(doubted)


def _reason(line: SentenceEvidence, support: float, threshold: float) -> tuple[str, str] | None:
    if line.contradicts:
        return "negation_mismatch", "the closest sentence of the context differs in its negation"
    if support < _WEAK and line.novel_numbers:
        return "novel_number", _quote(line.novel_numbers)
    if support < _WEAK and line.novel_names:
        return "novel_name", _quote(line.novel_names)
    if support < threshold and line.novel_terms:
        return "novel_terms", _quote(line.novel_terms)
    return ("scattered", "no passage holds these words together") if support < threshold else None


def _quote(tokens: Sequence[str], most: int = 5) -> str:
    return "not in the context: " + ", ".join(token[:80] for token in dict.fromkeys(tokens[:most]))
