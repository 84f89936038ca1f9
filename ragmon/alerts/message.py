"""An alert as a person on call reads it: what, since when, how sure, why, and what to try.

Sinks lay these words out; none of them words anything itself.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Literal, NamedTuple
from urllib.parse import quote, urlencode

from msgspec import Struct
from msgspec.structs import replace

from ragmon.alerts import Alert, AlertEvent, Evidence, SliceShare
from ragmon.alerts.sentences import length, percent
from ragmon.detectors import Finding, Severity
from ragmon.detectors.losses import INDEX, LOSSES, MODES

_FAILING = {
    "hit": "miss",
    "grounding": "unfaithful",
    "faithfulness": "unfaithful",
    "positive_feedback": "disliked",
    "latency": "slow",
    "latency_p50": "slow",
} | {
    name: name
    for name in ("zero_result", "error", "slow", "uncited", "cited_unretrieved", "low_score")
}
_FAILING |= {mode: mode.removeprefix("mode_") for mode in MODES}
_WORDS = {"renotified": "Still firing", "resolved": "Resolved"}
_NOTHING = Evidence(sentence="")
_LEAST_SHIFT = 0.005  # of a failure mode, to be worth a word


class Fact(NamedTuple):
    """One line of what is known."""

    name: str
    value: str

    @property
    def key(self) -> str:
        """The name as a label name: ``driven_by``."""
        return self.name.lower().replace(" ", "_")


class Link(NamedTuple):
    """Where to read on."""

    text: str
    url: str


class Message(Struct, frozen=True, kw_only=True):
    """Everything a person should be told of one transition."""

    title: str
    status: Literal["firing", "resolved"]
    severity: Severity
    sentence: str
    facts: tuple[Fact, ...]
    tries: tuple[str, ...]
    worst: tuple[Link, ...]  # queries, each with a link to it
    links: tuple[Link, ...]


class Links(Struct, frozen=True):
    """Addresses that people can open."""

    external_url: str  # of ragmon, as people reach it
    runbooks_url: str

    def alert(self, alert: Alert) -> str:
        """The alert on the status page."""
        return f"{self.external_url.rstrip('/')}/#alert-{alert.fingerprint}"

    def query(self, query_id: str) -> str:
        """One query with all that is known of it."""
        return f"{self.external_url.rstrip('/')}/v1/queries/{quote(query_id, safe=':')}"

    def failing(self, alert: Alert) -> str | None:
        """The queries that fail in this way; None where single queries do not show it."""
        stream = alert.key.stream
        failing = _FAILING.get(stream.metric)
        if failing is None or alert.key.kind == "no_data":
            return None
        fired = alert.fired_at if alert.fired_at is not None else alert.began_at
        since = int(alert.finding.changed_at or fired - (alert.finding.window_s or 0.0))
        asked = urlencode({"failing": failing, "pipeline": stream.pipeline, "since": since})
        return f"{self.external_url.rstrip('/')}/v1/queries?{asked}"

    def runbook(self, alert: Alert) -> str | None:
        """What to do about it, at length."""
        path = alert.evidence.runbook if alert.evidence else ""
        return f"{self.runbooks_url.rstrip('/')}/{path.rpartition('/')[2]}" if path else None


def message(event: AlertEvent, links: Links) -> Message:
    """What to tell of a transition."""
    title = f"{_WORDS.get(event.change, 'Firing')}: {summary(event.alert)}"
    told = _told(event.alert, title, event.at, links)
    if told.status == "firing":
        return told
    # What is over needs no remedy.
    return replace(told, sentence=f"It is over. It had been: {told.sentence}", tries=(), worst=())


def status(alert: Alert) -> Literal["firing", "resolved"]:
    """As receivers name it."""
    return "resolved" if alert.state == "resolved" else "firing"


def summary(alert: Alert) -> str:
    """Which alert, and of what: ``RagmonHitRate in docs (tenant acme)``."""
    stream = alert.key.stream
    part = f" ({stream.dimension} {stream.value})" if stream.dimension else ""
    return f"{alert.name} in {stream.pipeline}{part}"


def annotations(alert: Alert, links: Links) -> dict[str, str]:
    """What Alertmanager keeps beside the labels; said again when it is over."""
    told = _told(alert, "", alert.fired_at or alert.began_at, links)
    found = {"summary": summary(alert), "description": description(told)}
    found |= {fact.key: fact.value for fact in told.facts}
    runbook = links.runbook(alert)
    return found | ({"runbook_url": runbook} if runbook else {})


def description(told: Message) -> str:
    """The sentence, what to try, and the worst queries."""
    lines = [told.sentence]
    if told.tries:
        lines += ["", "What to try:", *(f"{at}. {each}" for at, each in enumerate(told.tries, 1))]
    if told.worst:
        lines += ["", "Worst queries:", *(f"- {each.text}: {each.url}" for each in told.worst)]
    return "\n".join(lines)


def plain(told: Message) -> str:
    """All of it as text."""
    width = max((len(fact.name) for fact in told.facts), default=0)
    lines = [f"[{told.severity}] {told.title}", told.sentence]
    lines += [f"  {fact.name:{width}}  {fact.value}" for fact in told.facts]
    lines += description(told).splitlines()[1:]
    lines += ["", *(f"{link.text}: {link.url}" for link in told.links)]
    return "\n".join(lines) + "\n"


def clip(text: str, most: int) -> str:
    """A text, shortened visibly if it must be."""
    return text if len(text) <= most else text[: most - 1] + "…"


def utc(when: float) -> str:
    """``2026-11-21 03:02 UTC``."""
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%d %H:%M UTC")


def rfc3339(when: float) -> str:
    """``2026-11-21T03:02:00Z``; whole milliseconds."""
    text = datetime.fromtimestamp(when, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z").replace(".000Z", "Z")


def _told(alert: Alert, title: str, now: float, links: Links) -> Message:
    evidence = alert.evidence or _NOTHING
    return Message(
        title=title,
        status=status(alert),
        severity=alert.severity,
        sentence=evidence.sentence or f"{alert.name} has no evidence",
        facts=tuple(_facts(alert, now)),
        tries=evidence.remedies,
        worst=tuple(
            Link(_worst_text(each.query_id, each.query, each.why), links.query(each.query_id))
            for each in evidence.worst
        ),
        links=tuple(_links(alert, links)),
    )


def _facts(alert: Alert, now: float) -> Iterator[Fact]:
    finding, evidence = alert.finding, alert.evidence or _NOTHING
    loss = LOSSES[INDEX[alert.key.stream.metric]]
    good = bool(loss.good)
    if finding.observed is not None:
        value = percent(finding.observed, good=good)
        yield Fact("Observed", f"{loss.good or loss.bad} {value}")
    if (expected := _expected(finding, good=good)) is not None:
        yield Fact("Expected", expected)
    yield Fact("Since", _since(alert))
    if alert.ended_at is not None:
        lasted = length(alert.ended_at - (alert.fired_at or alert.began_at))
        yield Fact("Over since", f"{utc(alert.ended_at)}, after {lasted}")
    elif now - (alert.fired_at or now) >= 60.0:
        yield Fact("Firing for", length(now - (alert.fired_at or now)))
    if evidence.excess is not None and evidence.excess >= 1.0:
        yield Fact("Beyond expected", f"about {evidence.excess:,.0f} queries")
    if evidence.slices:
        yield Fact("Driven by", "; ".join(_share(each, good=good) for each in evidence.slices))
    shifted = [each for each in evidence.modes if abs(each.since - each.before) >= _LEAST_SHIFT]
    if shifted:
        shifts = (f"{each.mode} {each.before:.1%} → {each.since:.1%}" for each in shifted)
        yield Fact("Failure modes", "; ".join(shifts))
    if finding.guarantee:
        yield Fact("Guarantee", finding.guarantee)


def _expected(finding: Finding, *, good: bool) -> str | None:
    if finding.alert.kind == "no_data":
        n = finding.reference.n if finding.reference else 0.0
        return f"about {n:,.0f} {finding.reference_text}"
    if finding.reference is not None:
        return f"{percent(finding.reference, good=good)} {finding.reference_text}".rstrip()
    if not finding.reference_text:
        return None
    limit = 1.0 - finding.tolerated if good else finding.tolerated
    return f"{'at least' if good else 'at most'} {limit:.1%} {finding.reference_text}"


def _since(alert: Alert) -> str:
    fired = alert.fired_at if alert.fired_at is not None else alert.began_at
    if alert.finding.changed_at is not None:
        return f"{utc(alert.finding.changed_at)} (estimated), alert fired {utc(fired)}"
    window = alert.finding.window_s
    return f"{utc(fired)}" + (f", over the last {length(window)}" if window else "")


def _share(part: SliceShare, *, good: bool) -> str:
    mean, expected = (1.0 - part.mean, 1.0 - part.expected) if good else (part.mean, part.expected)
    change = f"{expected:.1%} → {mean:.1%}, n={part.n:,.0f}"
    return f"{part.dimension} {part.value}: {part.share:.0%} of the change ({change})"


def _worst_text(query_id: str, query: str, why: str) -> str:
    text = f"“{clip(' '.join(query.split()), 160)}”" if query else query_id
    return f"{text} ({clip(why, 160)})" if why else text


def _links(alert: Alert, links: Links) -> Iterator[Link]:
    yield Link("Open in ragmon", links.alert(alert))
    if failing := links.failing(alert):
        yield Link("Failing queries", failing)
    if runbook := links.runbook(alert):
        yield Link("Runbook", runbook)
