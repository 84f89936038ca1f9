"""A finished log judged again minute by minute, as the daemon would have."""

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from ragmon.alerts import AlertEvent
from ragmon.alerts.timeline import AlertTimeline, Step
from ragmon.detectors import MINUTE_S, AlertKey, Severity
from ragmon.detectors.intake import ObservationBatch
from ragmon.windows.observations import Observations

DAY_S = 86_400.0
_PROGRESS_EVERY = 60  # minutes


class Episode(Struct, frozen=True, kw_only=True):
    """One alert from its firing to its end."""

    key: AlertKey
    name: str
    severity: Severity
    opened: float  # unix seconds
    ended: float | None  # None: it still fires when the log ends
    notified: bool  # False: notifications did not name it, as an effect of another or silenced
    sentence: str


class History(Struct, frozen=True, kw_only=True):
    """Every transition of a log."""

    first: float  # unix seconds of the first and the last query
    last: float
    events: tuple[AlertEvent, ...]
    trial_events: tuple[AlertEvent, ...]  # of rules that are not configured

    @property
    def days(self) -> float:
        """Length of the log."""
        return (self.last - self.first) / DAY_S


def run(
    timeline: AlertTimeline,
    observations: Observations,
    progress: Callable[[float], None] = lambda _: None,
) -> History:
    """Judge every minute of a log.

    Args:
        timeline: of a finished log, and that has seen nothing yet.
        observations: at least one, in any order.
        progress: called with the moment that was reached, unix seconds.
    """
    events: list[AlertEvent] = []
    trial_events: list[AlertEvent] = []
    for step in replay(timeline, observations):
        events += step.events
        trial_events += step.trial_events
        if step.closed is not None and step.closed.minute % _PROGRESS_EVERY == 0:
            progress(step.closed.now)
    return History(
        first=float(observations.timestamps.min()),
        last=float(observations.timestamps.max()),
        events=tuple(events),
        trial_events=tuple(trial_events),
    )


def replay(timeline: AlertTimeline, observations: Observations) -> Iterator[Step]:
    """Advance through a finished log until the minute of its last record was judged."""
    if not len(observations):
        return iter(())
    minutes = float(observations.timestamps.max()) // MINUTE_S + 1.0
    end = minutes * MINUTE_S + timeline.detection.options.lag_s
    return timeline.advance(ObservationBatch(logged=observations), end)


def between(observations: Observations, since: float, until: float) -> Observations:
    """The records of a span of time, both ends included; unix seconds."""
    inside = (observations.timestamps >= since) & (observations.timestamps <= until)
    if inside.all():
        return observations  # a whole log is large
    return observations.select(inside)


def episodes(events: Iterable[AlertEvent]) -> list[Episode]:
    """The alerts of some transitions, in the order of their opening."""
    by_id: dict[str, Episode] = {}
    for event in events:
        alert = event.alert
        if event.change == "firing" and alert.episode not in by_id:
            by_id[alert.episode] = Episode(
                key=alert.key,
                name=alert.name,
                severity=alert.severity,
                opened=event.at,
                ended=None,
                notified=event.is_named,
                sentence=alert.evidence.sentence if alert.evidence else "",
            )
        elif event.change in ("notified", "resolved") and alert.episode in by_id:
            episode = by_id[alert.episode]
            ended = event.at if event.change == "resolved" else episode.ended
            notified = episode.notified or event.is_named
            by_id[alert.episode] = replace(episode, ended=ended, notified=notified)
    return sorted(by_id.values(), key=lambda each: (each.opened, each.key))
