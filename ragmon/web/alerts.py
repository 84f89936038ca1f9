"""Alerts, undelivered notifications and silences over HTTP."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ragmon.alerts.as_json import AlertView, IncidentView
from ragmon.api_schema import AlertDetail, AlertList, IncidentList, NotificationQueue
from ragmon.asgi import BodyLimits, Problem
from ragmon.silence_schema import DeletedSilence, SilenceList, SilenceRequest, SilenceView
from ragmon.web import endpoints
from ragmon.web.api import Page, body_of, json_answer
from ragmon.web.incident_endpoints import ACKNOWLEDGE, UNACKNOWLEDGE, AcknowledgeRequest
from ragmon.web.parameters import limit_of, moment_of
from ragmon.web.permits import Readable, permit_of, pipeline_of

Asked = TypeVar("Asked")


class AlertSource(Protocol):
    """Source of alerts; every answer includes the last minute that was judged."""

    def now(self) -> float:
        """Unix seconds."""
        ...

    def judged_until(self) -> float | None:
        """Unix seconds up to which everything is judged; None before there was anything."""
        ...

    async def alerts(
        self,
        state: str,
        pipeline: str,
        since: float,
        limit: int,
        readable: Readable | None = None,
    ) -> list[AlertView]:
        """Alerts of the pipelines that may be read, what fires first, then the newest."""
        ...

    async def incidents(
        self,
        state: str,
        pipeline: str,
        since: float,
        limit: int,
        readable: Readable | None = None,
    ) -> list[IncidentView]:
        """Incidents of the pipelines that may be read, what is open first, then the newest."""
        ...

    async def alert(self, name: str) -> AlertDetail:
        """One alert by id or fingerprint, with its transitions; KeyError when unknown."""
        ...

    async def acknowledge(self, name: str, by: str, note: str) -> IncidentView:
        """Say that somebody works on an incident; KeyError when it is not open to that."""
        ...

    async def unacknowledge(self, name: str) -> IncidentView:
        """Say that nobody works on it any more; KeyError when it is not open to that."""
        ...

    async def undelivered(self, limit: int) -> NotificationQueue:
        """Number of notifications that wait, and the newest that were given up, with the reason."""
        ...

    async def silences(self) -> list[SilenceView]:
        """Every silence, with its state."""
        ...

    async def silence(self, request: SilenceRequest) -> SilenceView:
        """Keep a silence; ValueError when it makes no sense."""
        ...

    async def unsilence(self, name: str) -> None:
        """Delete a silence; KeyError when unknown."""
        ...


class AlertSection:
    """Endpoints of alerts, notifications and silences."""

    def __init__(self, alerts: AlertSource, limits: BodyLimits) -> None:
        self._alerts = alerts
        self._limits = limits

    def pages(self) -> Sequence[Page]:
        """Its endpoints."""
        return (
            Page(endpoints.ALERTS, self.listed),
            Page(endpoints.ALERT, self.shown),
            Page(endpoints.INCIDENTS, self.incidents),
            Page(ACKNOWLEDGE, self.acknowledged),
            Page(UNACKNOWLEDGE, self.unacknowledged),
            Page(endpoints.NOTIFICATIONS, self.undelivered),
            Page(endpoints.SILENCES, self.silences),
            Page(endpoints.ADD_SILENCE, self.silenced),
            Page(endpoints.DELETE_SILENCE, self.unsilenced),
        )

    async def listed(self, request: Request) -> Response:
        """Open and recent alerts."""
        state, since, limit = self._period(request)
        pipeline, readable = pipeline_of(request)
        until = self._alerts.judged_until()  # first, as it goes on meanwhile
        alerts = await self._alerts.alerts(state, pipeline, since, limit, readable)
        return json_answer(AlertList(judged_until=until, alerts=alerts))

    async def incidents(self, request: Request) -> Response:
        """Open and recent incidents."""
        state, since, limit = self._period(request)
        pipeline, readable = pipeline_of(request)
        until = self._alerts.judged_until()
        incidents = await self._alerts.incidents(state, pipeline, since, limit, readable)
        return json_answer(IncidentList(judged_until=until, incidents=incidents))

    def _period(self, request: Request) -> tuple[str, float, int]:
        """State, beginning and most entries of a list.

        Raises:
            Problem: one of them makes no sense.
        """
        asked = request.query_params
        state = asked.get("state", "all")
        if state not in endpoints.STATES:
            detail = f"state: {state[:40]!r} is not one of {', '.join(endpoints.STATES)}"
            raise Problem(400, detail, reason="bad_parameter")
        since = moment_of("since", asked.get("since", ""), self._alerts.now())
        return state, since, limit_of(asked.get("limit", "50"))

    async def shown(self, request: Request) -> Response:
        """One alert."""
        name = request.path_params["name"]
        readable = permit_of(request).pipelines
        try:
            alert = await self._alerts.alert(name)
        except KeyError:
            raise _missing("alert", name) from None
        if readable is not None and not readable(alert.pipeline):
            raise _missing("alert", name)
        return json_answer(alert)

    async def acknowledged(self, request: Request) -> Response:
        """Take an incident on."""
        asked = await self._decoded(request, AcknowledgeRequest)
        name = request.path_params["name"]
        try:
            by = asked.by or permit_of(request).name
            return json_answer(await self._alerts.acknowledge(name, by, asked.note))
        except KeyError:
            raise closed_incident(name) from None

    async def unacknowledged(self, request: Request) -> Response:
        """Let go of an incident."""
        name = request.path_params["name"]
        try:
            return json_answer(await self._alerts.unacknowledge(name))
        except KeyError:
            raise closed_incident(name) from None

    async def _decoded(self, request: Request, kind: type[Asked]) -> Asked:
        """The body of a request; an empty one has every default.

        Raises:
            Problem: it is no such JSON.
        """
        try:
            body = await body_of(request, self._limits)
            return msgspec.json.decode(body or b"{}", type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Problem(400, str(error), reason="bad_parameter") from None

    async def undelivered(self, request: Request) -> Response:
        """Notifications that no receiver has."""
        limit = limit_of(request.query_params.get("limit", "50"))
        return json_answer(await self._alerts.undelivered(limit))

    async def silences(self, _: Request) -> Response:
        """Every silence."""
        return json_answer(SilenceList(silences=await self._alerts.silences()))

    async def silenced(self, request: Request) -> Response:
        """Add a silence."""
        try:
            asked = await self._decoded(request, SilenceRequest)
            return json_answer(await self._alerts.silence(asked), 201)
        except ValueError as error:
            raise Problem(400, str(error), reason="bad_parameter") from None

    async def unsilenced(self, request: Request) -> Response:
        """Delete a silence."""
        name = request.path_params["name"]
        try:
            await self._alerts.unsilence(name)
        except KeyError:
            raise _missing("silence", name) from None
        return json_answer(DeletedSilence(deleted=name))


def closed_incident(name: str) -> Problem:
    """404, of an incident that cannot be acknowledged."""
    detail = f"no incident {name[:100]!r} is open that somebody was notified of"
    return Problem(404, detail, reason="not_found")


def _missing(what: str, name: str) -> Problem:
    return Problem(404, f"there is no {what} {name[:100]!r}", reason="not_found")
