"""An incident for the person on call: the news, how sure it is, why, and what to try.

Sinks lay these words out; none of them words anything itself.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Literal, NamedTuple
from urllib.parse import quote, urlencode

from msgspec import Struct
from msgspec.structs import replace

from ragmon.alerts import (
    Alert,
    Evidence,
    ModeShift,
    SliceShare,
    WorstQuery,
)
from ragmon.alerts.example_texts import clip, lookup_text, missing_text, topics_text
from ragmon.alerts.incidents import IncidentCause
from ragmon.alerts.notices import Acknowledgement, IncidentNotice
from ragmon.alerts.sentences import (
    MOST_SENTENCE,
    is_good,
    length,
    limit,
    measurement,
    share,
    unit,
)
from ragmon.detectors import Finding, Severity
from ragmon.detectors.losses import MODES, loss_of
from ragmon.durations import minute_text
from ragmon.percentages import percent_text
from ragmon.windows.series import VERSION

_FAILING = {
    "hit": "miss",
    "grounding": "unfaithful",
    "faithfulness": "unfaithful",
    "positive_feedback": "disliked",
} | {
    name: name
    for name in (
        "zero_result",
        "error",
        "slow",
        "uncited",
        "cited_unretrieved",
        "low_score",
        "refusal",
        "false_refusal",
        "repeat",
    )
}
_FAILING |= {mode: mode.removeprefix("mode_") for mode in MODES}
_LATENCIES = ("latency", "latency_p50")
_PREFIXES = {
    "grew": "Update: ",
    "escalated": "Escalated: ",
    "renotified": "Still firing: ",
    "acknowledged": "Acknowledged: ",
    "unacknowledged": "No longer acknowledged: ",
    "resolved": "Resolved: ",
}
NO_LABELS: Mapping[str, str] = MappingProxyType({})
_NOTHING = Evidence(sentence="")
_MOST_NOTE = 400
_LEAST = 0.005  # shift of a failure mode that is worth a word


class Fact(NamedTuple):
    """One line of what is known."""

    key: str  # of the annotation; receivers' templates hold it, so it outlives other names
    name: str
    value: str


class Link(NamedTuple):
    """An address to read on at."""

    text: str
    url: str


class Message(Struct, frozen=True, kw_only=True):
    """Everything that a notification holds."""

    title: str  # the first line, at most 140 characters with the severity before it
    status: Literal["firing", "resolved"]
    severity: Severity
    detail: str  # the second line; empty without samples
    facts: tuple[Fact, ...]
    tries: tuple[str, ...]
    worst: tuple[Link, ...]  # queries, each with a link to it
    links: tuple[Link, ...]


class Links(Struct, frozen=True):
    """Addresses that people can open."""

    external_url: str  # of ragmon, as people reach it
    runbooks_url: str = ""  # of people's own, as files; empty: those that ragmon serves

    def incident(self, incident_id: str) -> str:
        """The page of an incident."""
        return f"{self._base}/incidents/{quote(incident_id, safe='')}"

    def query(self, query_id: str) -> str:
        """One query with all that is known of it, as JSON."""
        return f"{self._base}/v1{self._query(query_id)}"

    def query_page(self, query_id: str) -> str:
        """The page of one query."""
        return f"{self._base}{self._query(query_id)}"

    def failing(self, alert: Alert) -> str | None:
        """The queries that it is about, and no others, as JSON; None for silence, without any.

        Where single queries do not show what is wrong, all of its slice and time.
        """
        asked = self._failing(alert)
        return f"{self._base}/v1/queries?{asked}" if asked else None

    def failing_page(self, alert: Alert) -> str | None:
        """The page that lists the same."""
        asked = self._failing(alert)
        return f"{self._base}/queries?{asked}" if asked else None

    @property
    def _base(self) -> str:
        return self.external_url.rstrip("/")

    @staticmethod
    def _query(query_id: str) -> str:
        return f"/queries/{quote(query_id, safe=':')}"

    @staticmethod
    def _failing(alert: Alert) -> str:
        stream = alert.key.stream
        if alert.key.kind == "no_data":
            return ""
        asked = {"pipeline": stream.pipeline}
        if stream.dimension:
            name = stream.dimension if stream.dimension == VERSION else f"tag.{stream.dimension}"
            asked[name] = stream.value
        if stream.metric in _FAILING:
            asked["failing"] = _FAILING[stream.metric]
        elif stream.metric in _LATENCIES:
            asked["order"] = "slowest"
        since, until = alert.span
        asked |= {"since": f"{since:.15g}", "until": f"{until:.15g}"}
        return urlencode(asked)

    def runbook(self, alert: Alert) -> str | None:
        """The page that says at length what to do about it."""
        path = alert.evidence.runbook if alert.evidence else ""
        return self.runbook_of(path.rpartition("/")[2].removesuffix(".md")) if path else None

    def runbook_of(self, name: str) -> str:
        """The runbook of a name."""
        if self.runbooks_url:
            return f"{self.runbooks_url.rstrip('/')}/{name}.md"
        return f"{self._base}/runbooks/{name}"


def message(notice: IncidentNotice, links: Links, labels: Mapping[str, str] = NO_LABELS) -> Message:
    """A notification in words; one of an end has no remedies.

    Args:
        notice: the notification.
        links: addresses for people.
        labels: external labels, such as the name of a cluster.
    """
    title = f"{_PREFIXES.get(notice.change, '')}{headline(notice)}"
    firing = _message(notice, title, notice.at, links)
    external = tuple(Fact(name, name, value) for name, value in labels.items())
    firing = replace(firing, facts=(*firing.facts, *external))
    return firing if firing.status == "firing" else replace(firing, tries=(), worst=())


def headline(notice: IncidentNotice) -> str:
    """``version v2 of docs is worse since 22:11 UTC: hit rate 48 % (82 %), …``."""
    return clip(notice.headline, MOST_SENTENCE)


def annotations(notice: IncidentNotice, links: Links) -> dict[str, str]:
    """Alertmanager's annotations; the same when it is over, but for the time of its end."""
    words = _message(notice, headline(notice), notice.opened_at, links)
    texts = {"summary": words.title, "description": description(words)}
    texts |= {fact.key: fact.value for fact in words.facts}
    runbook = links.runbook(notice.alert)
    return texts | ({"runbook_url": runbook} if runbook else {})


def description(words: Message) -> str:
    """The second line, what to try, and the worst queries."""
    paragraphs = [words.detail] if words.detail else []
    if words.tries:
        steps = (f"{number}. {step}" for number, step in enumerate(words.tries, 1))
        paragraphs.append("\n".join(("What to try:", *steps)))
    if words.worst:
        queries = (f"- {query.text}: {query.url}" for query in words.worst)
        paragraphs.append("\n".join(("Worst queries:", *queries)))
    return "\n\n".join(paragraphs)


def plain(words: Message) -> str:
    """All of it as text."""
    width = max((len(fact.name) for fact in words.facts), default=0)
    facts = [f"  {fact.name:{width}}  {fact.value}" for fact in words.facts]
    about = replace(words, detail="")
    paragraphs = (
        "\n".join(filter(None, (f"[{words.severity}] {words.title}", words.detail, *facts))),
        description(about),
        "\n".join(f"{link.text}: {link.url}" for link in words.links),
    )
    return "\n\n".join(filter(None, paragraphs)) + "\n"


def mode_shifts(shifts: Iterable[ModeShift]) -> list[str]:
    """Failure rates before and since: ``ranking 2 % → 9 %``; without those that hardly moved."""
    return [
        f"{shift.mode} {share(shift.before)} → {share(shift.since)}"
        for shift in shifts
        if abs(shift.since - shift.before) >= _LEAST
    ]


def rfc3339(when: float) -> str:
    """``2026-11-21T03:02:00Z``; whole milliseconds."""
    text = datetime.fromtimestamp(when, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z").replace(".000Z", "Z")


def likelihood(cause: IncidentCause) -> str:
    """A cause with its probability: ``version v2 (97 % likely)``."""
    if not cause.dimension:
        return f"{cause.text}; no single slice explains it"
    if cause.probability is None:
        return f"{cause.text}; no other part of the pipeline has an alert"
    return f"{cause.text} ({100.0 * cause.probability:.0f} % likely)"


def acknowledged_text(word: Acknowledgement) -> str:
    """``by ann, 21:10 UTC: we roll back``."""
    note = f": {' '.join(word.note.split())}" if word.note else ""
    return clip(f"by {word.by}, {minute_text(word.at)}{note}", _MOST_NOTE)


def _message(notice: IncidentNotice, title: str, now: float, links: Links) -> Message:
    alert = notice.alert
    evidence = alert.evidence or _NOTHING
    return Message(
        title=title,
        status=notice.status,
        severity=notice.severity,
        detail=evidence.detail,
        facts=tuple(_facts(notice, now)),
        tries=evidence.remedies,
        worst=tuple(
            Link(_worst_text(query), links.query_page(query.query_id)) for query in evidence.worst
        ),
        links=tuple(_links(notice, links)),
    )


def _facts(notice: IncidentNotice, now: float) -> Iterator[Fact]:
    alert = notice.alert
    yield Fact("incident", "Incident", notice.incident_id)
    yield Fact("likely_cause", "Cause", likelihood(notice.cause))
    if notice.acknowledged is not None:
        yield Fact("acknowledged", "Acknowledged", acknowledged_text(notice.acknowledged))
    if notice.alerts > 1:
        yield Fact("symptoms", "Symptoms", "; ".join(notice.symptoms))
    yield from _measurements(alert)
    since = alert.fired_at or alert.began_at
    if notice.ended_at is not None:
        lasted = length(notice.ended_at - min(since, notice.opened_at))
        yield Fact("over_since", "Ended", f"{minute_text(notice.ended_at)}, after {lasted}")
    elif now - notice.opened_at >= 60.0:
        yield Fact("firing_for", "Firing for", length(now - min(since, notice.opened_at)))
    yield from _reasons(alert)


def _measurements(alert: Alert) -> Iterator[Fact]:
    """The values of the alert that leads."""
    finding = alert.finding
    yield Fact("alert", "Alert", f"{alert.name} ({alert.key.kind.replace('_', ' ')})")
    if finding.observed is not None and finding.alert.kind != "no_data":
        loss = loss_of(finding.alert.stream.metric)
        value = measurement(finding, finding.observed)
        yield Fact("observed", "Observed", f"{loss.good or loss.bad} {value}")
    if expected := _expected(finding):
        yield Fact("expected", "Expected", expected)
    yield Fact("since", "Since", _since(alert))


def _reasons(alert: Alert) -> Iterator[Fact]:
    """The evidence of the alert that leads."""
    finding, evidence = alert.finding, alert.evidence or _NOTHING
    if evidence.excess is not None and evidence.excess >= 1.0:
        yield Fact(
            "beyond_expected",
            "Bad queries beyond expected",
            f"about {evidence.excess:,.0f} queries",
        )
    good = is_good(finding)
    if evidence.slices:
        drivers = "; ".join(_share(part, good=good) for part in evidence.slices)
        yield Fact("driven_by", "Driven by", drivers)
    if evidence.missing is not None:
        yield Fact("missing_documents", "Documents", missing_text(evidence.missing))
    if evidence.topics:
        asked = topics_text(evidence.topics, finding.alert.stream.metric)
        yield Fact("driving_topics", "Topics", asked)
    if text := lookup_text(evidence):
        yield Fact("examples", "Examples", text)
    if shifts := mode_shifts(evidence.modes):
        yield Fact("failure_modes", "Failure modes", "; ".join(shifts))
    if finding.guarantee and finding.guarantee not in evidence.detail:
        yield Fact("guarantee", "Guarantee", finding.guarantee)


def _expected(finding: Finding) -> str:
    if finding.alert.kind == "no_data":
        n = finding.reference.n if finding.reference else 0.0
        return f"about {n:,.0f} {unit(finding)} {finding.reference_text}"
    if finding.reference is not None:
        return f"{measurement(finding, finding.reference)} {finding.reference_text}".rstrip()
    return f"{limit(finding)} {finding.reference_text}" if finding.reference_text else ""


def _since(alert: Alert) -> str:
    fired = alert.fired_at if alert.fired_at is not None else alert.began_at
    if alert.finding.changed_at is not None:
        return (
            f"{minute_text(alert.finding.changed_at)} (estimated), alert fired {minute_text(fired)}"
        )
    window = alert.finding.window_s
    return f"{minute_text(fired)}" + (f", over the last {length(window)}" if window else "")


def _share(part: SliceShare, *, good: bool) -> str:
    mean, expected = (1.0 - part.mean, 1.0 - part.expected) if good else (part.mean, part.expected)
    change = f"{share(expected)} → {share(mean)}, {part.n:,.0f} queries"
    return f"{part.dimension} {part.value}: {percent_text(part.share, 0)} of the change ({change})"


def _worst_text(query: WorstQuery) -> str:
    text = f"“{clip(' '.join(query.query.split()), 160)}”" if query.query else query.query_id
    return f"{text} ({clip(query.why, 160)})" if query.why else text


def _links(notice: IncidentNotice, links: Links) -> Iterator[Link]:
    alert = notice.alert
    yield Link("Open in ragmon", links.incident(notice.incident_id))
    if failing := links.failing_page(alert):
        shows_failures = alert.key.stream.metric in _FAILING
        yield Link("Failing queries" if shows_failures else "Queries", failing)
    if runbook := links.runbook(alert):
        yield Link("Runbook", runbook)
