"""Answers that the embedded judge's process did not survive: set aside, and judged again."""

from collections.abc import Callable

from ragmon.clock import Clock
from ragmon.daemon.ingest.engine import Engine
from ragmon.daemon.judging.grounding_follower import (
    CRASHED,
    HUNG,
    grounding_case,
    grounding_verdict,
)
from ragmon.daemon.judging.grounding_process import (
    JudgeHungError,
    JudgeProcess,
    JudgeStartError,
)
from ragmon.quarantine import RetryFailedError, answer_item
from ragmon.records import Amendments, QueryRecord, Verdict
from ragmon.signals.evidence import EMBEDDED_JUDGE, verdict_of

_ERRORS = {
    CRASHED: "the judge's process ended at this answer, each time",
    HUNG: "the judge's process did not answer in time, each time",
}


class SkippedAnswers:
    """Puts answers into quarantine, and has them judged in a process of its own."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        start: Callable[[], JudgeProcess],
        calibrated: Callable[[str, Verdict], Verdict],
        judge: str = EMBEDDED_JUDGE,
    ) -> None:
        """Make it.

        Args:
            engine: with the quarantine.
            clock: of the daemon.
            start: makes a process that judges.
            calibrated: the verdict as its pipeline reads the score.
            judge: that skipped them.
        """
        self._judge = judge
        self._thread = engine.thread
        self._quarantine = engine.quarantine
        self._clock = clock
        self._start = start
        self._calibrated = calibrated

    def keep(self, record: QueryRecord, reason: str) -> None:
        """Put an answer into quarantine.

        Raises:
            StoreError: it cannot be kept.
        """
        cause = (reason, _ERRORS.get(reason, reason))
        item = answer_item(self._clock.now(), record.query_id, self._judge, cause)
        self._thread.ask(lambda: self._quarantine.put([item]))

    def judge_again(self, record: QueryRecord, known: Amendments) -> Verdict:
        """Judge one answer, apart from all others.

        Raises:
            RetryFailedError: the process did not survive it again.
        """
        process = self._start()
        try:
            [result] = process.judge([grounding_case(record)])
        except (EOFError, JudgeHungError, JudgeStartError, OSError) as error:
            raise RetryFailedError(str(error)) from None
        finally:
            process.stop()
        before = verdict_of(known, self._judge)
        share = before.probability if before else 1.0
        now = self._clock.now()
        verdict = grounding_verdict(record, result, share, now, self._judge)
        return self._calibrated(record.pipeline, verdict)
