"""Judging past answers over HTTP: forecast the cost, start a run, follow its progress."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ragmon.api_schema import JudgeForecast, JudgeProgress, JudgeRunRequest
from ragmon.asgi import BodyLimits, Problem
from ragmon.web import endpoints
from ragmon.web.api import Page, body_of, json_answer
from ragmon.web.parameters import moment_of


class JudgeRunSelection(NamedTuple):
    """Answers that a run draws from, and the most it may draw."""

    since: float  # unix seconds
    limit: int
    pipeline: str = ""  # empty: any


class JudgeRunSource(Protocol):
    """Draws past answers for the language model."""

    async def forecast(self, selection: JudgeRunSelection) -> JudgeForecast:
        """Answers, tokens and cost of a run; nothing is drawn."""
        ...

    async def draw(self, selection: JudgeRunSelection) -> JudgeForecast:
        """Draw, and have them judged."""
        ...

    async def progress(self) -> JudgeProgress:
        """State of the queue."""
        ...


class JudgeSection:
    """Endpoints of judge runs; without a language model they answer how to configure one."""

    def __init__(
        self, judging: JudgeRunSource | None, now: Callable[[], float], limits: BodyLimits
    ) -> None:
        self._judging = judging
        self._now = now
        self._limits = limits

    def pages(self) -> Sequence[Page]:
        """Its endpoints; a run costs money, so it needs an admin token."""
        return (
            Page(endpoints.JUDGE_PROGRESS, self.progress),
            Page(endpoints.JUDGE, self.judge),
        )

    async def progress(self, _: Request) -> Response:
        """State of the queue."""
        return json_answer(await self._configured().progress())

    async def judge(self, request: Request) -> Response:
        """Forecast, or draw."""
        judging = self._configured()
        try:
            asked = msgspec.json.decode(await body_of(request, self._limits), type=JudgeRunRequest)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Problem(400, str(error), reason="bad_parameter") from None
        since = moment_of("since", asked.since, self._now())
        selection = JudgeRunSelection(since, asked.limit, asked.pipeline)
        run = judging.forecast(selection) if asked.dry_run else judging.draw(selection)
        return json_answer(await run)

    def _configured(self) -> JudgeRunSource:
        if self._judging is None:
            detail = "no language model is configured; set judge.llm.base_url"
            raise Problem(404, detail, reason="not_found")
        return self._judging
