"""Answers that the judge refuses, and those that it judges with less certainty."""

import re
from collections.abc import Sequence

from ragmon.judges.grounding.evidence import SentenceEvidence
from ragmon.judges.grounding.language import language_of
from ragmon.judges.grounding.passages import AnswerContext
from ragmon.judges.grounding.words import is_unsegmented

REASONS = (
    "empty_answer",  # no word in it that could be supported or not
    "no_context",  # nothing retrieved, or its text not recorded
    "short_context",  # too little text to support anything
    "script",  # words cannot be told apart in this script
    "language",  # answer and context are in different languages
    "refusal",  # the answer says only that the sources do not tell
)

LEAST_CONTEXT_WORDS = 3
_SHORT = 3.0  # content words at which half of the log odds is kept
_HALF_KNOWN = 0.5
"""Share of the log odds that is kept where nothing was measured: other languages, JSON, tables."""

_REFUSAL_WITHIN = 60
"""Characters into a sentence; what refuses later has claimed something before."""

_NOT = r"(?:(?:do|does|did|is|are|was|were|could|can)(?: ?not|n[’']t)|cannot|(?:am )?unable to)"
_UNTOLD = (
    r"(?:\w+ ){0,2}?(?:provide|mention|contain|specify|specified|include|say|state|address|have|"
    r"know|help|available|given|mentioned|provided|found|find|answer|determine|discuss)"
)
_SOURCE = r"(?:documents?|passages?|context|texts?|sources?|information|articles?|excerpts?)"
_REFUSAL = re.compile(
    rf"\bi(?: \w+)? {_NOT} {_UNTOLD}"
    rf"|\b{_SOURCE} (?:\w+ ){{0,6}}?{_NOT} {_UNTOLD}"
    rf"|\b(?:no|not enough|insufficient) (?:\w+ ){{0,2}}?(?:information|mention|answer|context)\b"
    rf"|^\W*{_NOT} {_UNTOLD}"
    r"|\bi(?:[’']| a)m (?:sorry|afraid)|^\W*sorry\b",
    re.IGNORECASE,
)
_MAX_REFUSAL_CHARACTERS = 600


def reason_before_reading(answer: str, context: AnswerContext) -> str | None:
    """Reason not to judge an answer that the texts alone tell; None when there is none."""
    if not answer or answer.isspace():
        return "empty_answer"
    if not context.passages:
        return "no_context"
    if is_unsegmented(answer) or all(p.unsegmented for p in context.passages):
        return "script"
    if context.words < LEAST_CONTEXT_WORDS:
        return "short_context"
    return "language" if _languages_differ(answer, context) else None


def reason_after_reading(answer: str, evidence: Sequence[SentenceEvidence]) -> str | None:
    """Reason not to judge an answer once its sentences are known; None when there is none."""
    if not evidence:
        return "empty_answer"
    spans = [(line.start, line.end) for line in evidence]
    return "refusal" if is_refusal(answer, spans) else None


def is_refusal(answer: str, sentences: Sequence[tuple[int, int]]) -> bool:
    """True if every sentence says that the sources do not tell, so that nothing is claimed.

    A refusal within a longer answer stays part of it: leaving such sentences out cost 0.04 of
    AUROC on MTRAG, whose raters mark down a refusal that the sources contradict.

    Args:
        answer: the whole of it.
        sentences: spans of it.
    """
    if len(answer) > _MAX_REFUSAL_CHARACTERS:
        return False
    return all(
        (match := _REFUSAL.search(answer[begin:end])) and match.start() < _REFUSAL_WITHIN
        for begin, end in sentences
    )


def certainty(answer: str, evidence: Sequence[SentenceEvidence], context: AnswerContext) -> float:
    """Factor in (0, 1) on the log odds of a score: less text, less certainty.

    Short answers: 0.002 more AUROC on MTRAG and none less in the mean of AttributionBench.
    """
    content = sum(line.content for line in evidence)
    factor = context.read_share * content / (content + _SHORT)
    answer_language = language_of(answer)
    foreign = answer_language not in {None, "en"}
    structured = sum(passage.words for passage in context.passages if passage.structured)
    if foreign or 2 * structured > context.words:
        factor *= _HALF_KNOWN
    return factor


def _languages_differ(answer: str, context: AnswerContext) -> bool:
    language = language_of(answer)
    known = {p.language for p in context.passages if p.language is not None}
    return language is not None and bool(known) and language not in known
