"""From settings to detectors and to the times of alerts; the same live and in a backtest."""

from collections.abc import Sequence

from ragmon.alerts.machine import DEFAULT_TIMING, Timing
from ragmon.alerts.silences import Maintenance
from ragmon.config import Settings
from ragmon.config.settings import WEEK, MaintenanceSettings
from ragmon.detectors import rules
from ragmon.detectors.detection import Detection, DetectionOptions
from ragmon.plugins import find


def build_detection(settings: Settings, columns: Sequence[str]) -> Detection:
    """Every detector, over observations with these columns.

    Raises:
        SettingsError: a rule of an unknown kind, or with options it does not know.
    """
    given = settings.detectors
    options = DetectionOptions(
        false_alarms_per_month=given.false_alarms_per_month,
        lag_s=given.lag,
        delta=given.delta,
        z=given.z,
        max_streams=given.max_streams,
        first_days=given.first_days,
    )
    wanted = rules.combined(given.rules, defaults=given.defaults)
    return Detection(columns, rules.build(wanted), options)


def build_timing(settings: Settings) -> Timing:
    """When alerts fire, repeat and end; a kind that is not named keeps the shipped times.

    Raises:
        SettingsError: a kind of detector that does not exist.
    """
    given = settings.alerts
    for name, by_kind in (("wait", given.wait), ("keep", given.keep)):
        for kind in by_kind:
            find("ragmon.detectors", kind, f"alerts.{name}")
    return Timing(
        wait=DEFAULT_TIMING.wait | given.wait,
        keep=DEFAULT_TIMING.keep | given.keep,
        renotify=given.renotify,
    )


def build_maintenance(settings: Settings) -> tuple[Maintenance, ...]:
    """The weekly maintenance windows."""
    return tuple(map(_maintenance, settings.alerts.maintenance))


def _maintenance(given: MaintenanceSettings) -> Maintenance:
    hours, minutes = map(int, given.start.split(":"))
    return Maintenance(
        name=given.name,
        weekdays=tuple(WEEK.index(day) for day in given.days),
        start_s=3_600.0 * hours + 60.0 * minutes,
        duration_s=given.duration,
        pipelines=given.pipelines,
    )
