"""Judging past answers over HTTP: what it would take, have it done, how far it has come."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple, Protocol

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from ragmon.asgi import BodyLimits, Problem
from ragmon.web.api import Page, body_of, json_answer, moment_of

_PATH = "/v1/judge"


class _JudgeRunRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which answers are to be judged, as a client says it."""

    since: str = "1h"
    limit: Annotated[int, Meta(ge=1, le=100_000)] = 100
    pipeline: str = ""
    dry_run: bool = False


class JudgeRunSelection(NamedTuple):
    """Which answers are to be judged, and how many of them."""

    since: float  # unix seconds
    limit: int
    pipeline: str = ""  # empty: any


class JudgeRunSource(Protocol):
    """Who draws them."""

    async def forecast(self, wanted: JudgeRunSelection) -> dict[str, Any]:
        """What judging would take; nothing is drawn."""
        ...

    async def draw(self, wanted: JudgeRunSelection) -> dict[str, Any]:
        """Draw, and have them judged."""
        ...

    async def progress(self) -> dict[str, Any]:
        """What waits, and what keeps it."""
        ...


class JudgeSection:
    """The pages; without a language model they say how to get one."""

    def __init__(
        self, judging: JudgeRunSource | None, now: Callable[[], float], limits: BodyLimits
    ) -> None:
        self._judging = judging
        self._now = now
        self._limits = limits

    def pages(self) -> Sequence[Page]:
        """Asking costs money, so it needs a token for administrators."""
        return (
            Page(_PATH, "GET", "read", self.progress),
            Page(_PATH, "POST", "admin", self.judge),
        )

    async def progress(self, _: Request) -> Response:
        """What waits."""
        return json_answer(await self._configured().progress())

    async def judge(self, request: Request) -> Response:
        """Forecast, or draw."""
        judging = self._configured()
        try:
            asked = msgspec.json.decode(await body_of(request, self._limits), type=_JudgeRunRequest)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Problem(400, str(error), reason="bad_parameter") from None
        since = moment_of("since", asked.since, self._now())
        wanted = JudgeRunSelection(since, asked.limit, asked.pipeline)
        found = judging.forecast(wanted) if asked.dry_run else judging.draw(wanted)
        return json_answer(await found)

    def _configured(self) -> JudgeRunSource:
        if self._judging is None:
            detail = "no language model judges here; set judge.llm.base_url"
            raise Problem(404, detail, reason="not_found")
        return self._judging
