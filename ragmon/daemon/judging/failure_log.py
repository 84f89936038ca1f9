"""Log of why answers cannot be graded: one line for each trouble, until it is over."""

import threading
from collections.abc import Callable

import structlog

from ragmon.judges.llm import Failure, Judgement

BAD_PROMPT = "bad_prompt"
"""The prompt of a custom judge cannot be used any longer."""


class FailureLog:
    """Troubles of the endpoint and of prompts that were logged; safe for threads."""

    def __init__(
        self, log: structlog.typing.FilteringBoundLogger, opens_in: Callable[[], float]
    ) -> None:
        """Make it.

        Args:
            log: where it is said.
            opens_in: seconds until the endpoint is asked again; 0 while it is asked.
        """
        self._log = log
        self._opens_in = opens_in
        self._is_paused = False  # the endpoint is, and that was logged
        self._unusable: set[str] = set()  # judges whose prompt is, and that was logged
        self._lock = threading.Lock()

    def note(self, judge: str, got: Judgement | Failure) -> None:
        """Log what is new in a judge's outcome."""
        self._note_prompt(judge, got)
        self._note_pause(got)

    def _note_pause(self, got: Judgement | Failure) -> None:
        with self._lock:
            if isinstance(got, Judgement):
                self._is_paused = False
                return
            reason = got.cause or got.reason
            if self._is_paused or reason == "circuit_open" or self._opens_in() <= 0:
                return
            self._is_paused = True
        self._log.warning("judge_paused", reason=reason, detail=got.detail)

    def _note_prompt(self, judge: str, got: Judgement | Failure) -> None:
        with self._lock:
            if not isinstance(got, Failure) or got.reason != BAD_PROMPT:
                self._unusable.discard(judge)
                return
            if judge in self._unusable:
                return
            self._unusable.add(judge)
        self._log.error(
            "custom_prompt_unusable",
            judge=judge,
            detail=got.detail,
            hint="Mend the file, then run `ragmon quarantine retry --all --stage judge`",
        )
