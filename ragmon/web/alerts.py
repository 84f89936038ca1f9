"""Alerts, what became of their notifications, and silences over HTTP."""

from collections.abc import Sequence
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from ragmon.alerts.silences import Matcher
from ragmon.asgi import BodyLimits, Problem
from ragmon.web.api import Page, body_of, json_answer, limit_of, moment_of

STATES = ("open", "resolved", "all")

_Text = Annotated[str, Meta(max_length=1_000)]


class SilenceRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A silence to be made: conditions, and how long it holds."""

    matchers: Annotated[tuple[Matcher, ...], Meta(min_length=1, max_length=50)]
    duration: Annotated[str, Meta(max_length=20)]  # for example 2h
    starts_at: float | None = None  # unix seconds; now
    created_by: _Text = ""
    comment: _Text = ""


class AlertSource(Protocol):
    """Who knows the alerts; every answer includes the last minute that was judged."""

    def now(self) -> float:
        """Unix seconds."""
        ...

    def judged_until(self) -> float | None:
        """Unix seconds up to which everything is judged; None before there was anything."""
        ...

    async def alerts(
        self, state: str, pipeline: str, since: float, limit: int
    ) -> list[dict[str, Any]]:
        """Alerts with their evidence, what fires first, then the newest."""
        ...

    async def alert(self, name: str) -> dict[str, Any]:
        """One alert by id or fingerprint, with its transitions; KeyError when unknown."""
        ...

    async def undelivered(self, limit: int) -> dict[str, Any]:
        """How many notifications wait, and the newest that were given up, with the reason."""
        ...

    async def silences(self) -> list[dict[str, Any]]:
        """Every silence, with its state."""
        ...

    async def silence(self, wanted: SilenceRequest) -> dict[str, Any]:
        """Keep a silence; ValueError when it makes no sense."""
        ...

    async def unsilence(self, name: str) -> None:
        """Delete a silence; KeyError when unknown."""
        ...


class AlertSection:
    """The pages."""

    def __init__(self, book: AlertSource, limits: BodyLimits) -> None:
        self._book = book
        self._limits = limits

    def pages(self) -> Sequence[Page]:
        """What is answered; changes need a token for administrators."""
        return (
            Page("/v1/alerts", "GET", "read", self.listed),
            Page("/v1/alerts/{name}", "GET", "read", self.shown),
            Page("/v1/notifications", "GET", "read", self.undelivered),
            Page("/v1/silences", "GET", "read", self.silences),
            Page("/v1/silences", "POST", "admin", self.silenced),
            Page("/v1/silences/{name}", "DELETE", "admin", self.unsilenced),
        )

    async def listed(self, request: Request) -> Response:
        """Open and recent alerts."""
        asked = request.query_params
        state = asked.get("state", "all")
        if state not in STATES:
            detail = f"state: {state[:40]!r} is not one of {', '.join(STATES)}"
            raise Problem(400, detail, reason="bad_parameter")
        since = moment_of("since", asked.get("since", ""), self._book.now())
        limit = limit_of(asked.get("limit", "50"))
        until = self._book.judged_until()  # first, as it goes on meanwhile
        found = await self._book.alerts(state, asked.get("pipeline", ""), since, limit)
        return json_answer({"judged_until": until, "alerts": found})

    async def shown(self, request: Request) -> Response:
        """One alert."""
        name = request.path_params["name"]
        try:
            return json_answer(await self._book.alert(name))
        except KeyError:
            raise _missing("alert", name) from None

    async def undelivered(self, request: Request) -> Response:
        """What no receiver has."""
        limit = limit_of(request.query_params.get("limit", "50"))
        return json_answer(await self._book.undelivered(limit))

    async def silences(self, _: Request) -> Response:
        """All of them."""
        return json_answer({"silences": await self._book.silences()})

    async def silenced(self, request: Request) -> Response:
        """One more."""
        try:
            wanted = msgspec.json.decode(await body_of(request, self._limits), type=SilenceRequest)
            return json_answer(await self._book.silence(wanted), 201)
        except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
            raise Problem(400, str(error), reason="bad_parameter") from None

    async def unsilenced(self, request: Request) -> Response:
        """One less."""
        name = request.path_params["name"]
        try:
            await self._book.unsilence(name)
        except KeyError:
            raise _missing("silence", name) from None
        return json_answer({"deleted": name})


def _missing(what: str, name: str) -> Problem:
    return Problem(404, f"there is no {what} {name[:100]!r}", reason="not_found")
