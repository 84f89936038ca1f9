"""Routes: the configured sinks, and the incidents that each receives."""

import socket
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ragmon.alerts import SEVERITIES
from ragmon.alerts.message import Links
from ragmon.alerts.notices import IncidentNotice
from ragmon.clock import Clock
from ragmon.config import Settings
from ragmon.config.sections import SinkSettings
from ragmon.detectors import Severity
from ragmon.errors import SettingsError
from ragmon.http_client import check_secrets
from ragmon.plugins import resolve
from ragmon.sinks import Sink, SinkContext
from ragmon.stores.protocols import Notification

_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared with
encode_notice = msgspec.msgpack.Encoder().encode


class Route(Struct, frozen=True, kw_only=True):
    """A configured sink, and what goes there."""

    name: str
    sink: Sink
    min_severity: Severity = "info"
    pipelines: tuple[str, ...] = ()  # none: all
    give_up_after_s: float = SinkSettings.model_fields["give_up_after"].default

    def takes(self, notice: IncidentNotice) -> bool:
        """True for an incident that goes there: from a notice that does on, all that follow do."""
        if self.pipelines and not set(self.pipelines) & set(notice.pipelines):
            return False
        return SEVERITIES.index(notice.severity) >= SEVERITIES.index(self.min_severity)


def build_routes(settings: Settings, clock: Clock, port: int) -> tuple[Route, ...]:
    """The configured sinks.

    Args:
        settings: the settings.
        clock: given to the sinks.
        port: on which ragmon listens, for links unless ``external_url`` is set.

    Raises:
        SettingsError: an unknown kind, options it does not know, a name that is taken, or a
            secret that cannot be read.
    """
    links = Links(settings.external_url or _url(settings, port), settings.runbooks_url)
    context = SinkContext(clock, links, settings.alerts.labels)
    routes: list[Route] = []
    for at, entry in enumerate(settings.sinks):
        setting, name = f"sinks.{at}", entry.name or entry.kind
        if name in (route.name for route in routes):
            raise SettingsError(
                f"{setting}: there is another sink called {name!r}", hint="Set another `name`"
            )
        routes.append(
            Route(
                name=name,
                sink=_build(setting, {"kind": entry.kind} | entry.options, context),
                min_severity=entry.min_severity,
                pipelines=entry.pipelines,
                give_up_after_s=entry.give_up_after,
            )
        )
    return tuple(routes)


def _url(settings: Settings, port: int) -> str:
    """The URL for links; the host's name stands for every address."""
    host = settings.host
    scheme = "http" if settings.tls.cert_file is None else "https"
    if host in _EVERYWHERE:
        host = socket.gethostname()
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _build(setting: str, entry: dict[str, Any], context: SinkContext) -> Sink:
    module, options = resolve("ragmon.sinks", setting, entry)
    try:
        check_secrets(options)
        sink: Sink = module.build(options, context)
    except SettingsError as error:
        raise SettingsError(f"{setting}.{error}") from None
    return sink


def addressed(notice: IncidentNotice, routes: Sequence[Route]) -> IncidentNotice:
    """The notice with the names of the sinks that it goes to."""
    return replace(notice, sinks=tuple(route.name for route in routes if route.takes(notice)))


def notifications(notices: Iterable[IncidentNotice], routes: Sequence[Route]) -> list[Notification]:
    """A notification for each sink that takes these notices, in their order."""
    return [
        Notification(sink, notice.id, notice.incident_id, notice.at, encode_notice(notice))
        for notice in (addressed(each, routes) for each in notices)
        for sink in notice.sinks
    ]
