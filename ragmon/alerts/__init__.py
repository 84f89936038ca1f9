"""Alerts: findings of detectors as states that begin and end, with evidence and remedies.

``machine`` turns the findings of a minute into transitions, ``inhibition`` and ``silences`` mark
what explains and what mutes them, ``incidents`` puts together what shares a cause, ``notices``
decides what people are notified of, ``evidence`` gathers the reasons, ``sentences`` and
``remedies`` put them into words. Everything is data in, data out: the daemon stores the results
and delivers them.
"""

import hashlib
from typing import Literal

from msgspec import Struct

from ragmon.detectors import AlertKey, Finding, Severity

State = Literal["pending", "firing", "no_data", "resolved"]
"""inactive is no alert; no_data: it fired, and goes on while there is nothing to measure."""

Change = Literal["pending", "inactive", "firing", "no_data", "notified", "escalated", "resolved"]
"""notified: it fired explained by another alert or silenced, and is neither any more; escalated:
it became graver."""

SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")
_HOUR_S = 3_600.0
LABELS = ("alertname", "pipeline", "metric", "type", "severity", "dimension", "value", "rule")


class SliceShare(Struct, frozen=True):
    """One slice's part in a change."""

    dimension: str
    value: str
    n: float
    mean: float  # loss since the change
    expected: float  # loss before
    share: float  # of the excess losses of the whole
    probability: float = 0.0  # that the change is this slice's, not the whole pipeline's


class ModeShift(Struct, frozen=True):
    """Failure rate of one stage before and since the change, each in [0, 1]."""

    mode: str
    before: float
    since: float


class WorstQuery(Struct, frozen=True):
    """A query that shows the problem."""

    query_id: str
    query: str = ""  # its text, as far as it may be shown
    why: str = ""
    trace_id: str = ""  # as it was recorded
    span_id: str = ""


class MissingDocuments(Struct, frozen=True):
    """Documents that were retrieved regularly, and are no more."""

    count: int
    regular: int  # documents that were retrieved regularly
    ids: tuple[str, ...]  # up to five, those that were retrieved most often first
    since: float | None = None  # unix seconds; None: other versions retrieve them still


class DrivingTopic(Struct, frozen=True):
    """A topic of which more queries fail than of others, and than before."""

    words: tuple[str, ...]  # that name it
    of_failing: float  # its share of the queries that fail since the change
    of_queries: float  # its share of all queries since
    failing: int  # queries that were looked at


LookUp = Literal["none", "waiting", "done", "part", "skipped"]
"""State of the search in the store for worst queries, documents and topics: none, not yet, all,
from the newest queries alone, or given up for want of room or because of an error."""


class Evidence(Struct, frozen=True):
    """Reasons to believe an alert, as of the minute in which it fired."""

    sentence: str  # the first line: value, expected value and time
    detail: str = ""  # the second line: samples, likely range, how rare a false alarm is
    excess: float | None = None  # losses beyond what was expected
    slices: tuple[SliceShare, ...] = ()  # that drive the change, the largest part first
    modes: tuple[ModeShift, ...] = ()
    remedies: tuple[str, ...] = ()
    runbook: str = ""  # path below the documentation
    worst: tuple[WorstQuery, ...] = ()  # up to five
    missing: MissingDocuments | None = None  # None: none are surely missing
    topics: tuple[DrivingTopic, ...] = ()  # up to three, the largest part first
    lookup: LookUp = "none"  # of the worst queries, the missing documents and the topics


class Alert(Struct, frozen=True, kw_only=True):
    """One alert from its beginning to its end."""

    key: AlertKey
    name: str
    state: State
    severity: Severity
    began_at: float  # unix seconds: pending, or firing at once
    fired_at: float | None = None
    ended_at: float | None = None
    bad_at: float  # last found bad or unknown
    notified_at: float | None = None  # since when notifications of its incident name it
    leads: bool = False  # its incident is known by it; one of those that are open does
    inhibited_by: str = ""  # the fingerprint of the cause
    explained_by: str = ""  # the same cause, for people
    silenced_by: str = ""  # id of the silence, or name of the maintenance window
    incident_id: str = ""  # empty while it is pending
    finding: Finding
    evidence: Evidence | None = None

    @property
    def fingerprint(self) -> str:
        """The same for every episode of this alert."""
        return fingerprint(self.key)

    @property
    def episode(self) -> str:
        """This episode alone."""
        return f"{self.fingerprint}-{int(self.began_at)}"

    @property
    def span(self) -> tuple[float, float]:
        """The time that it is about, unix seconds: from the change to when it was last bad.

        Without a known change it begins with the window in which it was first found.
        """
        fired = self.began_at if self.fired_at is None else self.fired_at
        since = self.finding.changed_at
        if since is None:
            since = fired - (self.finding.window_s or _HOUR_S)
        return since, max(self.bad_at, fired)

    @property
    def is_loud(self) -> bool:
        """True for one that fires, or did before its data ended, and is not silenced."""
        return self.state in ("firing", "no_data") and not self.silenced_by

    @property
    def labels(self) -> dict[str, str]:
        """Labels by which receivers and silences know it; no numbers, so they do not change."""
        stream, rule = self.key.stream, self.key.rule
        about = (stream.pipeline, stream.metric, self.key.kind)
        values = (self.name, *about, self.severity, stream.dimension, stream.value, rule)
        return {name: value for name, value in zip(LABELS, values, strict=True) if value}


class AlertEvent(Struct, frozen=True, kw_only=True):
    """One transition. Its id is the same if it is made again."""

    id: str
    at: float
    change: Change
    alert: Alert

    @property
    def is_named(self) -> bool:
        """True for a transition of an alert that notifications name, from when they do."""
        since = self.alert.notified_at
        if self.change == "firing":  # not the one after a while without data
            return since == self.at
        return since is not None and self.change in ("notified", "escalated", "resolved")


def fingerprint(key: AlertKey) -> str:
    """Identity of an alert across its episodes, as 16 hexadecimal digits."""
    parts = "\x00".join((key.kind, *key.stream, key.rule))
    return hashlib.blake2b(parts.encode(), digest_size=8).hexdigest()


def graver(one: Severity, other: Severity) -> bool:
    """True when the first severity is above the second."""
    return SEVERITIES.index(one) > SEVERITIES.index(other)


def event(change: Change, alert: Alert, at: float) -> AlertEvent:
    """A transition with its stable id."""
    identity = f"{alert.episode}-{change}-{int(at)}"
    return AlertEvent(id=identity, at=at, change=change, alert=alert)
