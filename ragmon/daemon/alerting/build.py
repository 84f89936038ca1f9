"""Detectors, delays and maintenance windows from settings, for daemon and backtest alike."""

from collections.abc import Sequence

from ragmon.alerts.machine import DEFAULT_TIMING, Timing
from ragmon.alerts.silences import Maintenance
from ragmon.config import Settings
from ragmon.config.days import holidays, zone
from ragmon.config.sections import WEEK, MaintenanceSettings
from ragmon.detectors import rules
from ragmon.detectors.days import Calendar
from ragmon.detectors.detection import Detection, DetectionOptions
from ragmon.detectors.losses import CUSTOM
from ragmon.detectors.rules import Rule
from ragmon.errors import SettingsError
from ragmon.plugins import find, remedy


def build_detection(settings: Settings, columns: Sequence[str]) -> Detection:
    """Every detector, over observations with these columns.

    Raises:
        SettingsError: a rule of an unknown kind, or with options it does not know; a file of
            holidays that cannot be read.
    """
    values = settings.detectors
    calendar = Calendar(
        zone=zone(values.time_zone),
        weekend=tuple(WEEK.index(day) for day in values.weekend),
        holidays=holidays(values.holidays),
    )
    options = DetectionOptions(
        false_alarms_per_month=values.false_alarms_per_month,
        lag_s=values.lag,
        delta=values.delta,
        z=values.z,
        max_streams=values.max_streams,
        calendar=calendar,
        first_days=values.first_days,
    )
    configured = rules.build(rules.combined(values.rules, defaults=values.defaults))
    _check_judges(configured, [judge.name for judge in settings.judge.custom])
    return Detection(columns, configured, options)


def _check_judges(configured: Sequence[Rule], judges: Sequence[str]) -> None:
    """Refuse rules that watch a custom judge which there is not."""
    for rule in configured:
        for metric in (rule.metric, *getattr(rule.options, "metrics", ())):
            of, _, judge = metric.partition("/")
            if of == CUSTOM and judge and judge not in judges:
                there = remedy(judge, judges) if judges else "judge.custom has none"
                raise SettingsError(f"detectors.rules: {metric}: no judge {judge!r}; {there}")


def build_timing(settings: Settings) -> Timing:
    """Delays of alerts; a kind that is not named keeps the shipped ones.

    Raises:
        SettingsError: a kind of detector that does not exist.
    """
    values = settings.alerts
    for name, by_kind in (("wait", values.wait), ("keep", values.keep)):
        for kind in by_kind:
            find("ragmon.detectors", kind, f"alerts.{name}")
    return Timing(
        wait=DEFAULT_TIMING.wait | values.wait,
        keep=DEFAULT_TIMING.keep | values.keep,
        renotify=values.renotify,
    )


def build_maintenance(settings: Settings) -> tuple[Maintenance, ...]:
    """The weekly maintenance windows."""
    return tuple(map(_maintenance, settings.alerts.maintenance))


def _maintenance(window: MaintenanceSettings) -> Maintenance:
    hours, minutes = map(int, window.start.split(":"))
    return Maintenance(
        name=window.name,
        weekdays=tuple(WEEK.index(day) for day in window.days),
        start_s=3_600.0 * hours + 60.0 * minutes,
        duration_s=window.duration,
        pipelines=window.pipelines,
    )
