"""Settings of detection."""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from ragmon.config.days import holiday_entries, known_zone
from ragmon.config.sections import WEEK, Listed, SettingsSection, Weekday
from ragmon.config.units import Seconds
from ragmon.detectors.detection import DetectionOptions

_DETECTION = DetectionOptions()


class DetectorSettings(SettingsSection):
    """Detection of drops in quality."""

    false_alarms_per_month: Annotated[float, Field(gt=0, le=10_000)] = (
        _DETECTION.false_alarms_per_month
    )
    """False alarms expected in 30 days over everything that is watched. Lower it for fewer
    alerts; small drops are then found later."""
    lag: Annotated[Seconds, Field(ge=0, le=3_600)] = _DETECTION.lag_s
    """Time after the end of a minute at which it is evaluated. Raise it if queries are sent
    late."""
    delta: Annotated[float, Field(gt=0, lt=1)] = _DETECTION.delta
    """Increases smaller than this raise no alert; 0.01 is one percentage point of the error
    rate."""
    z: Annotated[float, Field(ge=0, le=10)] = _DETECTION.z
    """Margin above the expected level, in standard errors of that level, less what could raise no
    alarm within a day. Raise it if changes from day to day cause false alarms."""
    max_streams: Annotated[int, Field(ge=1, le=100_000)] = _DETECTION.max_streams
    """Most combinations of metric, pipeline and slice value that are watched; each takes 17 kB
    of memory, and one of fractions (attribution, grounding, faithfulness) 48 kB."""
    first_days: Annotated[int, Field(ge=0, le=7)] = _DETECTION.first_days
    """Days from the start that serve as the baseline until one is saved with `ragmon baseline`;
    0: no baseline until then."""
    time_zone: Annotated[str, AfterValidator(known_zone)] = "UTC"
    """Time zone of the people who ask, for example Europe/Berlin: where days, weekends and
    holidays begin."""
    weekend: Annotated[tuple[Weekday, ...], Listed] = tuple(
        WEEK[day] for day in _DETECTION.calendar.weekend
    )
    """Days off of each week. Until two of them were seen, their level may differ from that of
    working days."""
    holidays: Annotated[tuple[str, ...], BeforeValidator(holiday_entries), Listed] = ()
    """Days off besides: dates (2026-12-25) and paths of iCalendar files (.ics) with events of
    whole days, read at start. A holiday is expected to be like a weekend and teaches nothing
    about its weekday."""
    defaults: bool = True
    """Apply the shipped rules."""
    rules: tuple[dict[str, Any], ...] = ()
    """More rules, for example {kind: threshold, metric: slow, limit: 0.1}. A rule replaces the
    shipped one of the same kind and metric."""
