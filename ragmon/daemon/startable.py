"""Check of settings before anything is opened, written or bound."""

from pydantic import BaseModel

from ragmon.clock import Clock
from ragmon.config import Settings
from ragmon.daemon.alerting.build import build_detection, build_timing
from ragmon.daemon.build import build_pipeline, check_exposure, shared_source
from ragmon.daemon.judging.build import check_judges
from ragmon.daemon.notify.routing import build_routes
from ragmon.daemon.otlp import build_exporter
from ragmon.daemon.producing import produced_to
from ragmon.daemon.tls import build_certificates
from ragmon.daemon.tokens import grants
from ragmon.errors import SettingsError
from ragmon.exposition.own import OwnMetrics
from ragmon.plugins import resolve


def _accept(_options: BaseModel) -> None:
    """Most sources have no more to check than their options."""


def _no_position(_options: BaseModel) -> str | None:
    """Most sources cannot be told to share a position."""
    return None


def _check_sources(settings: Settings) -> None:
    """Check each source, and that no two of them move the same position.

    Raises:
        SettingsError: one cannot be used, or two would skip messages of each other.
    """
    positions: dict[str, int] = {}
    for at, source in enumerate(settings.sources):
        module, options = resolve("ragmon.sources", f"sources.{at}", source)
        getattr(module, "check", _accept)(options)
        position = getattr(module, "position", _no_position)(options)
        if position is not None and positions.setdefault(position, at) != at:
            raise SettingsError(
                f"sources.{at} and sources.{positions[position]} both keep the position of"
                f" {position}, so that each would skip what the other has read",
                hint="Take one of them out, or give one another group",
            )


def check_startable(settings: Settings, clock: Clock) -> None:
    """Build what only reads the settings and their files, as the daemon will.

    Raises:
        SettingsError: the daemon would refuse to start.
    """
    check_exposure(settings)
    grants(settings)
    build_certificates(settings.tls, OwnMetrics())
    resolve("ragmon.stores", "store", settings.store)
    build_exporter(settings)
    check_judges(settings)
    build_detection(settings, build_pipeline(settings).columns)
    build_timing(settings)
    build_routes(settings, clock, settings.port)
    _check_sources(settings)
    shared_source(settings)
    produced_to(settings)
    if settings.probes:
        from ragmon.daemon.probes.scheduler import plan  # noqa: PLC0415 - the whole evaluation

        for probe in settings.probes:
            plan(probe, grounding=settings.judge.grounding.enabled)
