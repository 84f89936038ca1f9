"""Scores that a source reads from a tracing tool, and commits itself together with its position."""

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from ragmon.records import Feedback, Label
from ragmon.sources import IngestCounters
from ragmon.sources.otlp.reading.facts import SpanEvaluation
from ragmon.sources.otlp.receiver import scores
from ragmon.sources.otlp.receiver.targets import Targets
from ragmon.sources.otlp.traces.feedback import all_changes

_PATHS = {"langfuse": scores.LANGFUSE, "phoenix": next(iter(scores.PHOENIX))}
_SOURCE = "otlp_feedback"


class LoggedScores:
    """See ``ragmon.sources.ScoreReader`` for what the method promises."""

    def __init__(
        self, targets: Targets, counters: IngestCounters, stamp: Callable[[], scores.Stamp]
    ) -> None:
        """Make it.

        Args:
            targets: to find queries by their spans.
            counters: of what becomes of scores.
            stamp: makes what gives an evaluation its time, as of now.
        """
        self._targets = targets
        self._counters = counters
        self._stamp = stamp

    def changes(
        self, tool: Literal["langfuse", "phoenix"], items: Sequence[msgspec.Raw]
    ) -> list[Feedback | Label]:
        """Feedback and labels of scores as the tool's own SDK sends them; the rest is counted."""
        accepted, refused = scores.read(_PATHS[tool], items, self._targets, self._stamp())
        for refusal in refused:
            self._counters.rejected(_SOURCE, refusal.reason)
        by_query: dict[str, list[SpanEvaluation]] = {}
        for query_id, evaluation, _ in accepted:
            by_query.setdefault(query_id, []).append(evaluation)
        return all_changes(by_query)
