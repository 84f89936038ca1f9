"""Who grades answers: the embedded grounding judge, or any other of this form.

A metric whose judge is not there is absent with the reason, never made up.
"""

from collections.abc import Mapping
from typing import Protocol

from ragmon.evaluate.cases import Case
from ragmon.evaluate.score.judge_usage import JudgeUsage, UsageSummary
from ragmon.records import QueryRecord

NEEDS_LLM = {
    "answer_relevance": "does the answer address the question",
    "completeness": "does it hold all that the chunks say of the question",
    "conciseness": "is it free of filler",
    "context_precision": "which chunks were useful, by the judge instead of labels",
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
_OF_OTHERS = frozenset(
    {"claim_recall", "context_recall", "semantic_similarity", "noise_sensitivity"}
)
"""What takes more than the answer that was judged."""


class AnswerGrader(Protocol):
    """Grades one answer."""

    name: str
    metrics: tuple[str, ...]
    concurrency: int  # answers at a time

    def grade(self, case: Case, record: QueryRecord) -> Mapping[str, float]:
        """Scores in [0, 1] by metric; a metric it cannot give for this answer is left out."""
        ...

    def account(self) -> UsageSummary:
        """What it was asked, and what that took."""
        ...


class GroundingGrader:
    """The embedded judge: are the answer, and the truth, supported by the retrieved chunks?"""

    name = "grounding"
    metrics: tuple[str, ...] = ("faithfulness", "context_recall", "claim_recall")
    concurrency = 1  # it computes; threads would share one core

    def __init__(self) -> None:
        from ragmon.judges import grounding  # noqa: PLC0415 - reads its artefact

        self._judge = grounding.load()
        self._ledger = JudgeUsage(self.name)

    def grade(self, case: Case, record: QueryRecord) -> Mapping[str, float]:
        """What the chunks support of the answer and the truth, and the answer of the claims."""
        found = self._claims(case, record.answer) if record.answer else {}
        texts = [chunk.text for chunk in record.chunks or () if chunk.text]
        if not texts:
            return found
        if record.answer:
            got = self._judge.score(case.query, record.answer, texts)
            if got.score is None:
                self._ledger.failed(got.reason_none or "unknown")
            else:
                self._ledger.judged()
                found["faithfulness"] = got.score
        if case.ground_truth_answer:
            held = self._judge.score(case.query, case.ground_truth_answer, texts).score
            found |= {} if held is None else {"context_recall": held}
        return found

    def _claims(self, case: Case, answer: str) -> dict[str, float]:
        """How far the answer makes the claims of a complete one, mean."""
        scores = [self._judge.score(case.query, each, [answer]).score for each in case.claims or ()]
        known = [score for score in scores if score is not None]
        return {"claim_recall": sum(known) / len(known)} if known else {}

    def account(self) -> UsageSummary:
        """How many answers it read, and why not the others."""
        return self._ledger.account()


class HumanGrader:
    """What people said of the recorded answers, beside what judges say."""

    name = "human"
    metrics: tuple[str, ...] = ("faithfulness",)
    concurrency = 1

    def __init__(self, faithful: Mapping[str, float]) -> None:
        """Verdicts in [0, 1] by case id."""
        self._faithful = faithful

    def grade(self, case: Case, record: QueryRecord) -> Mapping[str, float]:  # noqa: ARG002
        """The verdict on this case, if there is one."""
        found = self._faithful.get(case.case_id)
        return {} if found is None else {"faithfulness": found}

    def account(self) -> UsageSummary:
        """How many answers were labelled."""
        return UsageSummary(name=self.name, judged=len(self._faithful))


def why_absent(metric: str, account: UsageSummary) -> str:
    """Why a judge has no score at all for a metric."""
    if account.failed and not account.judged:
        reasons = ", ".join(f"{reason} {n:,}" for reason, n in account.failed.items())
        return f"could not be judged: {reasons}"
    if account.name == HumanGrader.name:
        return "nobody labelled an answer"
    if account.judged and metric not in _OF_OTHERS:
        return "the judge gave it for no case"
    unread = ", or the judge could not read them" if metric in _OF_OTHERS else ""
    return f"no case has {_NEEDS.get(metric, 'an answer')}{unread}"
