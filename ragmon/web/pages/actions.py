"""Forms on the pages of incidents and alerts: acknowledge, silence, end a silence."""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from ragmon.alerts.as_json import AlertView
from ragmon.alerts.silences import Matcher
from ragmon.asgi import Problem
from ragmon.silence_schema import SilenceRequest, SilenceView
from ragmon.web.alerts import AlertSource, closed_incident
from ragmon.web.api import Page
from ragmon.web.page_endpoints import ACKNOWLEDGE_FORM, END_SILENCE_FORM, SILENCE_FORM
from ragmon.web.pages.login import go, page_before
from ragmon.web.permits import permit_of

DURATIONS = ("1h", "4h", "12h", "24h", "7d")
_MOST_TEXT = 1_000
_ALERT, _SLICE, _PIPELINE = "alert", "slice", "pipeline"


class SilenceChoice(Struct, frozen=True):
    """A set of alerts that a form may silence."""

    name: str
    text: str
    matchers: tuple[Matcher, ...]


class ActionSection:
    """Endpoints of the forms."""

    def __init__(self, alerts: AlertSource) -> None:
        self._alerts = alerts

    def pages(self) -> Sequence[Page]:
        """Its endpoints."""
        return (
            Page(ACKNOWLEDGE_FORM, self.acknowledge),
            Page(SILENCE_FORM, self.silence),
            Page(END_SILENCE_FORM, self.end_silence),
        )

    async def acknowledge(self, request: Request) -> Response:
        """Take an incident on, or let go of it."""
        name, fields = request.path_params["name"], request.state.form
        try:
            if fields.get("take_back"):
                await self._alerts.unacknowledge(name)
            else:
                by = text_of(fields, "by") or permit_of(request).name
                await self._alerts.acknowledge(name, by, text_of(fields, "note"))
        except KeyError:
            raise closed_incident(name) from None
        return go(page_before(request))

    async def silence(self, request: Request) -> Response:
        """Silence what the form names."""
        name, fields = request.path_params["name"], request.state.form
        try:
            alert = await self._alerts.alert(name)
        except KeyError:
            raise Problem(404, f"there is no alert {name[:100]!r}", reason="not_found") from None
        choices = {choice.name: choice for choice in silence_choices(alert)}
        chosen = choices.get(fields.get("what", _ALERT))
        if chosen is None:
            raise Problem(400, "what: choose one of the form", reason="bad_parameter")
        asked = SilenceRequest(
            matchers=chosen.matchers,
            duration=fields.get("duration", ""),
            created_by=text_of(fields, "by") or permit_of(request).name,
            comment=text_of(fields, "comment"),
        )
        try:
            await self._alerts.silence(asked)
        except ValueError as error:
            raise Problem(400, str(error), reason="bad_parameter") from None
        return go(page_before(request))

    async def end_silence(self, request: Request) -> Response:
        """End a silence."""
        name = request.path_params["name"]
        try:
            await self._alerts.unsilence(name)
        except KeyError:
            detail = f"there is no silence {name[:100]!r}"
            raise Problem(404, detail, reason="not_found") from None
        return go(page_before(request))


def silence_choices(alert: AlertView) -> list[SilenceChoice]:
    """Sets of alerts that a person who looks at one may want to silence, the smallest first."""
    pipeline = Matcher("pipeline", alert.pipeline)
    about = (Matcher("dimension", alert.dimension), Matcher("value", alert.value))
    one = (Matcher("alertname", alert.name), pipeline, Matcher("metric", alert.metric), *about)
    place = f"{alert.dimension} {alert.value}" if alert.dimension else alert.pipeline
    choices = [SilenceChoice(_ALERT, f"{alert.name} on {place}", one)]
    if alert.dimension:
        text = f"everything on {place} of {alert.pipeline}"
        choices.append(SilenceChoice(_SLICE, text, (pipeline, *about)))
    text = f"everything of pipeline {alert.pipeline}"
    return [*choices, SilenceChoice(_PIPELINE, text, (pipeline,))]


def silences_of(alerts: Iterable[AlertView], silences: Iterable[SilenceView]) -> list[SilenceView]:
    """The silences that are not over and are about one of these alerts."""
    labels = [alert.labels for alert in alerts]
    return [
        silence
        for silence in silences
        if silence.state != "expired"
        and any(all(one.matches(each) for one in silence.matchers) for each in labels)
    ]


def text_of(fields: dict[str, str], name: str) -> str:
    """A text that somebody wrote into a field.

    Raises:
        Problem: 400, it is too long.
    """
    text = fields.get(name, "").strip()
    if len(text) > _MOST_TEXT:
        detail = f"{name}: {len(text)} characters, {_MOST_TEXT} are allowed"
        raise Problem(400, detail, reason="bad_parameter")
    return text
