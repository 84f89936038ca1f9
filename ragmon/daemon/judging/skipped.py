"""Answers that the embedded judge's process did not survive: set aside, and judged again."""

from collections.abc import Callable
from typing import NamedTuple

from ragmon.clock import Clock
from ragmon.daemon.ingest.engine import Engine
from ragmon.daemon.judging.grounding_follower import (
    CRASHED,
    HUNG,
    LONGEST,
    TOO_LONG,
    grounding_case,
    grounding_verdict,
    is_too_long,
)
from ragmon.daemon.judging.grounding_process import (
    JudgeHungError,
    JudgeProcess,
    JudgeStartError,
)
from ragmon.daemon.judging.session_turns import Earlier, no_turns
from ragmon.errors import RagmonError
from ragmon.privacy import Policy
from ragmon.quarantine import RetryFailedError, answer_item, explain
from ragmon.records import Amendments, QueryRecord, Verdict
from ragmon.signals.evidence import verdict_of

_ERRORS = {
    CRASHED: "the judge's process ended at this answer, each time",
    HUNG: "the judge's process did not answer in time, each time",
    TOO_LONG: f"question, answer and chunks are longer than the {LONGEST:,} characters that a "
    "judge is given",
}


class SkippedOptions(NamedTuple):
    """The judge that skipped them, and the privacy of its errors, which can quote an answer."""

    judge: str
    text: Policy
    earlier: Earlier = no_turns


class JudgeFailedError(RagmonError):
    """The judge's process lives, but has no score for an answer."""


class SkippedAnswers:
    """Puts answers into quarantine, and has them judged in a process of its own."""

    def __init__(
        self,
        engine: Engine,
        options: SkippedOptions,
        clock: Clock,
        start: Callable[[], JudgeProcess],
        calibrated: Callable[[str, Verdict], Verdict],
    ) -> None:
        """Make it.

        Args:
            engine: with the quarantine.
            options: of the judge.
            clock: of the daemon.
            start: makes a process that judges.
            calibrated: the verdict as its pipeline reads the score.
        """
        self._judge = options.judge
        self._text = options.text
        self._earlier = options.earlier
        self._thread = engine.thread
        self._quarantine = engine.quarantine
        self._clock = clock
        self._start = start
        self._calibrated = calibrated

    def keep(self, record: QueryRecord, reason: str, error: str = "") -> None:
        """Put an answer into quarantine.

        Args:
            record: of the answer.
            reason: out of a small set.
            error: of the judge; empty: the words for the reason.

        Raises:
            StoreError: it cannot be kept.
        """
        text = (
            explain(JudgeFailedError(error), self._text) if error else _ERRORS.get(reason, reason)
        )
        cause = (reason, text)
        item = answer_item(self._clock.now(), record.query_id, self._judge, cause)
        self._thread.ask(lambda: self._quarantine.put([item]))

    def judge_again(self, record: QueryRecord, known: Amendments) -> Verdict:
        """Judge one answer, apart from all others.

        Raises:
            RetryFailedError: the process did not survive it again, or it is too long.
        """
        if is_too_long(record):
            raise RetryFailedError(_ERRORS[TOO_LONG])
        process = self._start()
        try:
            [result] = process.judge([grounding_case(record, self._earlier(record))])
        except (EOFError, JudgeHungError, JudgeStartError, OSError) as error:
            raise RetryFailedError(str(error)) from None
        finally:
            process.stop()
        if result.note:
            raise RetryFailedError(explain(JudgeFailedError(result.note), self._text))
        before = verdict_of(known, self._judge)
        share = before.probability if before else 1.0
        now = self._clock.now()
        verdict = grounding_verdict(record, result, share, now, self._judge)
        return self._calibrated(record.pipeline, verdict)
