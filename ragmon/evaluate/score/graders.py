"""Graders of answers: the embedded grounding judge, human labels, and the protocol of others.

A metric without a grader is reported as absent, with the reason.
"""

from collections.abc import Mapping
from typing import Protocol

from ragmon.evaluate.cases import Case
from ragmon.evaluate.score.judge_usage import JudgeUsage, UsageSummary
from ragmon.records import QueryRecord

NEEDS_LLM = {
    "answer_relevance": "does the answer address the question",
    "completeness": "does it include all that the chunks say about the question",
    "conciseness": "is it free of filler",
    "context_precision": "which chunks were useful, according to the judge instead of labels",
    "noise_sensitivity": "what irrelevant chunks do to faithfulness",
}
"""Metrics that only a language model can give, with the question each one answers."""

_NEEDS = {
    "faithfulness": "an answer and the texts of its chunks",
    "context_recall": "a ground_truth_answer and the texts of the chunks",
    "claim_recall": "claims and an answer",
    "context_precision": "the texts of its chunks",
    "context_utilization": "an answer and the texts of its chunks",
    "semantic_similarity": "an answer and a ground_truth_answer",
    "noise_sensitivity": "a faithful answer, and chunks of others to mix in",
}
_NEED_MORE = frozenset(
    {"claim_recall", "context_recall", "semantic_similarity", "noise_sensitivity"}
)
"""Metrics that need more than the answer that was judged."""


class AnswerGrader(Protocol):
    """Judge of one answer; several threads may call it."""

    name: str
    metrics: tuple[str, ...]
    concurrency: int  # answers at a time

    def grade(self, case: Case, record: QueryRecord) -> Mapping[str, float]:
        """Scores in [0, 1] by metric; a metric it cannot give for this answer is left out."""
        ...

    def usage(self) -> UsageSummary:
        """Answers judged and failed, tokens and cost until now."""
        ...


class GroundingGrader:
    """Embedded judge: support of the answer, and of the reference answer, by the chunks."""

    name = "grounding"
    metrics: tuple[str, ...] = ("faithfulness", "context_recall", "claim_recall")
    concurrency = 1  # it computes; threads would share one core

    def __init__(self) -> None:
        from ragmon.judges import grounding  # noqa: PLC0415 - reads its artefact

        self._judge = grounding.load()
        self._usage = JudgeUsage(self.name)

    def grade(self, case: Case, record: QueryRecord) -> Mapping[str, float]:
        """Faithfulness, context recall and claim recall, as far as the case has the texts."""
        scores = self._claims(case, record.answer) if record.answer else {}
        texts = [chunk.text for chunk in record.chunks or () if chunk.text]
        if not texts:
            return scores
        if record.answer:
            result = self._judge.score(case.query, record.answer, texts)
            if result.score is None:
                self._usage.failed(result.reason_none or "unknown")
            else:
                self._usage.judged()
                scores["faithfulness"] = result.score
        if case.ground_truth_answer:
            recall = self._judge.score(case.query, case.ground_truth_answer, texts).score
            scores |= {} if recall is None else {"context_recall": recall}
        return scores

    def _claims(self, case: Case, answer: str) -> dict[str, float]:
        """Mean support of the claims of a complete answer by this one."""
        claims = case.claims or ()
        scores = [self._judge.score(case.query, claim, [answer]).score for claim in claims]
        known = [score for score in scores if score is not None]
        return {"claim_recall": sum(known) / len(known)} if known else {}

    def usage(self) -> UsageSummary:
        """Answers judged, and those that could not be, by reason."""
        return self._usage.summary()


class HumanGrader:
    """Human labels of the recorded answers, as a grader beside the judges."""

    name = "human"
    metrics: tuple[str, ...] = ("faithfulness",)
    concurrency = 1

    def __init__(self, faithful: Mapping[str, float]) -> None:
        """Verdicts in [0, 1] by case id."""
        self._faithful = faithful

    def grade(self, case: Case, record: QueryRecord) -> Mapping[str, float]:  # noqa: ARG002
        """The verdict on this case, if there is one."""
        verdict = self._faithful.get(case.case_id)
        return {} if verdict is None else {"faithfulness": verdict}

    def usage(self) -> UsageSummary:
        """Number of labelled answers."""
        return UsageSummary(name=self.name, judged=len(self._faithful))


def absence_reason(metric: str, usage: UsageSummary) -> str:
    """Reason why a judge has no score at all for a metric."""
    if usage.failed and not usage.judged:
        reasons = ", ".join(f"{reason} {n:,}" for reason, n in usage.failed.items())
        return f"could not be judged: {reasons}"
    if usage.name == HumanGrader.name:
        return "no answer has a human label"
    if usage.judged and metric not in _NEED_MORE:
        return "the judge gave no case a score"
    unread = ", or the judge could not read them" if metric in _NEED_MORE else ""
    return f"no case has {_NEEDS.get(metric, 'an answer')}{unread}"
