"""A finished log lived through again, minute by minute, as the daemon would have."""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ragmon.alerts import AlertEvent
from ragmon.alerts.evidence import explain
from ragmon.alerts.machine import DEFAULT_TIMING, HEAR_ALL, AlertBook, Suppressions, Timing, step
from ragmon.detectors import AlertKey, Finding, Severity
from ragmon.detectors.detection import Closed, Detection, replay
from ragmon.windows.observations import Observations

DAY_S = 86_400.0


class Episode(Struct, frozen=True, kw_only=True):
    """One alert from its firing to its end."""

    key: AlertKey
    name: str
    severity: Severity
    opened: float  # unix seconds
    ended: float | None  # None: it still fires when the log ends
    heard: bool  # False: an effect of another alert, silenced or in a maintenance window
    sentence: str


class History(Struct, frozen=True, kw_only=True):
    """What happened."""

    first: float  # unix seconds of the first and the last query
    last: float
    events: tuple[AlertEvent, ...]
    aside: tuple[AlertEvent, ...]  # of rules that nobody asked for

    @property
    def days(self) -> float:
        """How long the log is."""
        return (self.last - self.first) / DAY_S


def live_through(
    detection: Detection,
    observations: Observations,
    *,
    timing: Timing = DEFAULT_TIMING,
    hush: Suppressions = HEAR_ALL,
    is_aside: Callable[[AlertKey], bool] = lambda _: False,
    progress: Callable[[float], None] = lambda _: None,
) -> History:
    """Judge every minute of a log.

    Args:
        detection: that has seen nothing yet.
        observations: at least one, in any order.
        timing: of alerts.
        hush: what nobody wants to hear of.
        is_aside: alerts that neither explain others nor are explained by them.
        progress: told the moment that was reached, unix seconds.
    """
    books = (_Book(detection, timing, hush), _Book(detection, timing, hush))
    for closed in replay(detection, observations):
        for book, wanted in zip(books, (False, True), strict=True):
            book.minute(
                closed, [each for each in closed.findings if is_aside(each.alert) is wanted]
            )
        if closed.minute % 60 == 0:
            progress(closed.now)
    return History(
        first=float(observations.timestamps.min()),
        last=float(observations.timestamps.max()),
        events=tuple(books[0].events),
        aside=tuple(books[1].events),
    )


def between(observations: Observations, since: float, until: float) -> Observations:
    """Those of some time."""
    inside = (observations.timestamps >= since) & (observations.timestamps <= until)
    if inside.all():
        return observations  # a whole log is large
    return observations.select(inside)


def episodes(events: Iterable[AlertEvent]) -> list[Episode]:
    """The alerts of some transitions, in the order of their opening."""
    found: dict[str, Episode] = {}
    for event in events:
        alert = event.alert
        if event.change == "firing" and alert.episode not in found:
            found[alert.episode] = Episode(
                key=alert.key,
                name=alert.name,
                severity=alert.severity,
                opened=event.at,
                ended=None,
                heard=event.notify,
                sentence=alert.evidence.sentence if alert.evidence else "",
            )
        elif event.change in ("notified", "resolved") and alert.episode in found:
            held = found[alert.episode]
            ended = event.at if event.change == "resolved" else held.ended
            found[alert.episode] = replace(held, ended=ended, heard=held.heard or event.notify)
    return sorted(found.values(), key=lambda each: (each.opened, each.key))


class _Book:
    """The alerts of some rules, and their transitions."""

    def __init__(self, detection: Detection, timing: Timing, hush: Suppressions) -> None:
        self.events: list[AlertEvent] = []
        self._book = AlertBook()
        self._detection = detection
        self._timing = timing
        self._hush = hush

    def minute(self, closed: Closed, findings: Sequence[Finding]) -> None:
        if not findings and not self._book.open:
            return  # most minutes
        self._book, made = step(
            self._book,
            findings,
            closed.now,
            lambda found: explain(found, self._detection, closed.now),
            timing=self._timing,
            hush=self._hush,
        )
        self.events += made
