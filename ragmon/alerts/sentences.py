"""An alert in one plain sentence, with the numbers that make one believe it."""

from datetime import UTC, datetime

from ragmon.detectors import Finding, Measured
from ragmon.detectors.losses import INDEX, LOSSES

_DAY_S = 86_400.0


def sentence(finding: Finding, now: float) -> str:
    """What was observed since when, what was expected, and what that is worth as evidence."""
    if finding.alert.kind == "no_data":
        return _silence(finding, now)
    parts = [f"{subject(finding)} {_observed(finding, now)}", _expected(finding)]
    return f"{', '.join(part for part in parts if part)}{_worth(finding)}"


def subject(finding: Finding) -> str:
    """Who and what: ``docs hit rate``, ``docs hit rate (tenant acme)``."""
    stream = finding.alert.stream
    loss = LOSSES[INDEX[stream.metric]]
    of = f" ({stream.dimension} {stream.value})" if stream.dimension else ""
    return f"{stream.pipeline} {loss.good or loss.bad}{of}"


def percent(measured: Measured, *, good: bool) -> str:
    """A share with its interval: ``87.9% (84.6–90.6, n=412)``."""
    mean, lower, upper = measured.mean, measured.lower, measured.upper
    if good:
        mean, lower, upper = 1.0 - mean, 1.0 - upper, 1.0 - lower
    return f"{mean:.1%} ({100 * lower:.1f}–{100 * upper:.1f}, n={measured.n:,.0f})"


def moment(when: float, now: float) -> str:
    """A time of today, or a date and time; UTC."""
    form = "%H:%M UTC" if now - when < _DAY_S else "%Y-%m-%d %H:%M UTC"
    return datetime.fromtimestamp(when, UTC).strftime(form)


def length(seconds: float) -> str:
    """``3 min``, ``2 h``, ``1.5 d``."""
    for size, unit in ((_DAY_S, "d"), (3_600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.0f} s"


def _good(finding: Finding) -> bool:
    """Whether a person thinks of this metric as a share of good answers."""
    return bool(LOSSES[INDEX[finding.alert.stream.metric]].good)


def _observed(finding: Finding, now: float) -> str:
    value = percent(finding.observed, good=_good(finding)) if finding.observed else "unknown"
    if finding.changed_at is not None:
        return f"{value} since {moment(finding.changed_at, now)}"
    return f"{value} over the last {length(finding.window_s)}" if finding.window_s else value


def _expected(finding: Finding) -> str:
    if finding.reference is not None:
        value = percent(finding.reference, good=_good(finding))
        return f"expected {value} {finding.reference_text}"
    good = _good(finding)
    limit = 1.0 - finding.tolerated if good else finding.tolerated
    return f"{'at least' if good else 'at most'} {limit:.1%} {finding.reference_text}"


def _worth(finding: Finding) -> str:
    if finding.evidence is None:
        return f"; {finding.guarantee}" if finding.alert.kind == "slo" else ""
    return (
        f"; evidence {_odds(finding.evidence)} : 1, threshold {_odds(finding.threshold or 0.0)}: "
        f"{finding.guarantee}"
    )


def _silence(finding: Finding, now: float) -> str:
    stream = finding.alert.stream
    what = {"traffic": "no query", "judged": "no judgement", "positive_feedback": "no rating"}
    who = stream.value if stream.dimension == "source" else stream.pipeline
    since = moment(finding.changed_at, now) if finding.changed_at is not None else "a while"
    expected = finding.reference.n if finding.reference else 0.0
    return (
        f"{who}: {what.get(stream.metric, f'no {stream.metric}')} since {since}, "
        f"about {expected:,.0f} {finding.reference_text}"
    )


def _odds(value: float) -> str:
    return f"{value:,.0f}" if value < 1e9 else f"{value:.0e}"
