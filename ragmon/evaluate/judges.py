"""Who grades answers: the embedded grounding judge, or any other of this form.

A metric whose judge is not there is absent with the reason, never made up.
"""

from collections.abc import Mapping
from typing import Protocol

from ragmon.evaluate.cases import Case
from ragmon.records import QueryRecord

NEEDS_LLM = {
    "answer_relevancy": "does the answer address the question",
    "completeness": "does it cover every claim of the case",
    "conciseness": "is it free of filler",
    "judged_context_precision": "which chunks were useful, by the judge instead of labels",
}
"""Metrics that only a language model can give, with the question each one answers."""


class Judge(Protocol):
    """Grades one answer."""

    name: str
    metrics: tuple[str, ...]

    def grade(self, case: Case, record: QueryRecord) -> Mapping[str, float]:
        """Scores in [0, 1] by metric; a metric it cannot give for this answer is left out."""
        ...


class Grounding:
    """The embedded judge: are the answer, and the truth, supported by the retrieved chunks?"""

    name = "grounding"
    metrics: tuple[str, ...] = ("faithfulness", "context_recall")

    def __init__(self) -> None:
        from ragmon.judges import grounding  # noqa: PLC0415 - reads its artefact

        self._judge = grounding.load()

    def grade(self, case: Case, record: QueryRecord) -> Mapping[str, float]:
        """Faithfulness of the answer, and recall of the context by the true answer."""
        texts = [chunk.text for chunk in record.chunks or () if chunk.text]
        if not texts:
            return {}
        asked = {"faithfulness": record.answer, "context_recall": case.ground_truth_answer}
        judged = {
            name: self._judge.score(case.query, text, texts).score
            for name, text in asked.items()
            if text
        }
        return {name: score for name, score in judged.items() if score is not None}
