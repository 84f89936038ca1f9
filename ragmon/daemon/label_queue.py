"""Answers to label for the pages, and their labels, which take the way of ``/v1/labels``."""

from collections.abc import Callable, Sequence

import msgspec

from ragmon.access import Permit
from ragmon.api_schema import QueryDetail
from ragmon.asgi import Problem, Scope
from ragmon.daemon.component import Context
from ragmon.daemon.judging.calibration import Calibrations
from ragmon.daemon.monitor import LiveMonitor
from ragmon.errors import RecordError, SettingsError
from ragmon.event_time import Bounds
from ragmon.judges.custom.options import CHOICES, Options, read_prompt
from ragmon.judges.grounding.fitting import LEAST
from ragmon.records import Label
from ragmon.sources import Submission, commit, count_outcome
from ragmon.sources.http import ENDPOINTS
from ragmon.web.pages.label_source import Calibrated, LabelEffects, LabelQuestion
from ragmon.web.parameters import QuerySelection
from ragmon.web.permits import Readable

_PATH = ENDPOINTS["/v1/labels"]
_WEEK_S = 7 * 86_400.0
_MOST = 400  # newest answers that are looked at


class LabelQueue:
    """Implements ``ragmon.web.pages.label_source.LabelSource``."""

    def __init__(self, context: Context, monitor: LiveMonitor, calibrations: Calibrations) -> None:
        self._context = context
        self._monitor = monitor
        self._calibrations = calibrations

    @property
    def threshold(self) -> float:
        """``judge.unfaithful_below``."""
        return self._context.settings.judge.unfaithful_below

    def questions(self) -> Sequence[LabelQuestion]:
        """Questions of the custom judges, with their prompts as they are now."""
        return [
            LabelQuestion(judge.name, _asked(judge), CHOICES[judge.effective_scale])
            for judge in self._context.settings.judge.custom
        ]

    async def candidates(self, pipeline: str, readable: Readable | None) -> list[QueryDetail]:
        """The newest answers of a week."""
        # A range of scores would open every block of the week: 4.6 s where this takes 0.3 s.
        recent = QuerySelection(
            pipeline=pipeline,
            since=self._context.clock.now() - _WEEK_S,
            limit=_MOST,
            readable=readable,
        )
        return (await self._monitor.queries(recent)).queries

    async def query(self, query_id: str) -> QueryDetail | None:
        """One query; None when it is unknown or expired."""
        return await self._monitor.query(query_id)

    async def send(self, label: Label, scope: Scope, permit: Permit) -> None:
        """Take a label: decoded, committed, counted and recorded as one over HTTP.

        Raises:
            Problem: it is refused, or too much is waiting.
        """
        context, line = self._context, msgspec.json.encode(label)
        now = context.clock.now()
        settings = context.settings
        bounds = Bounds(now - settings.retention.records, now + settings.max_clock_skew)
        try:
            change = _PATH.decode(line, now, bounds)
        except RecordError as error:
            context.own.rejected(_PATH.source, error.reason)
            raise Problem(400, str(error), reason=error.reason) from None
        permit.charge(1)
        outcome = await commit(
            context.engine.writer,
            lambda reply: Submission(
                _PATH.source, len(line), reply, changes=[change], pipelines=permit.pipelines
            ),
        )
        count_outcome(context.own, _PATH.source, outcome)
        counts = f"{outcome.accepted} accepted, {len(outcome.refused)} rejected"
        context.audit.labelled(scope, permit, counts)
        for _, reason in outcome.refused:
            raise Problem(400, f"the label was refused: {reason.replace('_', ' ')}", reason=reason)

    async def effects(self, pipeline: str, readable: Readable | None) -> LabelEffects:
        """Effects of the labels so far."""
        report = await self._monitor.report("7d", pipeline, None, readable)
        may_read: Callable[[str], bool] = readable or (lambda _name: True)
        return LabelEffects(
            agreement=report.judge_agreement,
            calibrations=tuple(
                Calibrated(name, kept.examples, kept.calibration.threshold, kept.refused or "")
                for name, kept in sorted(self._calibrations.kept.items())
                if name == (pipeline or name) and kept.teacher == "people" and may_read(name)
            ),
            least=LEAST,
        )


def _asked(judge: Options) -> str:
    if judge.kind == "python":
        return f"graded by {judge.entry}"
    try:
        return read_prompt(judge).template
    except SettingsError as error:
        return str(error)
