"""An alert in two lines: the news in the first, the reasons to believe it in the second.

The first line names metric, place, value, expected value and time and fits a lock screen. The
second gives samples, the likely range and how rare a false alarm is, in words that need no
statistics.
"""

from datetime import UTC, datetime

from ragmon.detectors import MINUTE_S, Finding, Measured, StreamKey
from ragmon.detectors.losses import family, loss_of

MOST_TITLE = 140
"""Characters of the first line with everything that a sink puts before it."""

MOST_SENTENCE = MOST_TITLE - len("[critical] Still firing: ")
"""Characters of the first line alone."""

_DAY_S = 86_400.0
_MONTH_DAYS = 30.0
_YEAR_DAYS = 365.0
_LATENCIES = {"latency": "95th percentile", "latency_p50": "median"}
_UNITS = {
    "judged": "judgements",
    "uncited": "answers",
    "cited_unretrieved": "answers",
    "refusal": "answers",
    "false_refusal": "answers",
    "grounding": "answers",
    "faithfulness": "judged answers",
    "custom_score": "judged answers",
    "positive_feedback": "ratings",
}
_ABSENT = {
    "traffic": "query",
    "judged": "judgement",
    "positive_feedback": "rating",
    "latency": "latency",
    "latency_p50": "latency",
}


def sentence(finding: Finding, now: float, usual_ms: float | None = None) -> str:
    """First line: ``hit rate of docs fell to 48 % (expected 82 %) since 22:11 UTC``.

    Args:
        finding: the finding as of ``now``.
        now: unix seconds; a time of the same day is written without its date.
        usual_ms: the latency that a query counts as slow beyond, for the latency metrics.

    Returns:
        At most 115 characters, so that a sink's ``[critical] Still firing:`` fits before it.
        Long names lose their middle.
    """
    key = StreamKey(*(" ".join(name.split()) for name in finding.alert.stream))
    name_length = max(map(len, key))
    text = _first_line(finding, key, now, usual_ms)
    while len(text) > MOST_SENTENCE and name_length > 1:
        name_length -= 1
        short = key._replace(
            pipeline=shorten(key.pipeline, name_length),
            dimension=shorten(key.dimension, name_length),
            value=shorten(key.value, name_length),
        )
        text = _first_line(finding, short, now, usual_ms)
    return text


def detail(finding: Finding, usual_ms: float | None = None) -> str:
    """Second line: samples, likely range and how rare a false alarm is; may be empty."""
    parts = []
    if finding.alert.kind == "no_data" and finding.reference is not None:
        n = f"{finding.reference.n:,.0f} {unit(finding)}"
        parts.append(f"about {n} expected meanwhile {finding.reference_text}")
    elif finding.observed is not None and finding.typical_ms is not None:
        n = f"{finding.observed.n:,.0f} {unit(finding)}"
        above = f"{share(finding.observed.mean)} of the last day's took longer than"
        parts.append(f"typical of {n}; {above} {_drifted(finding)[0]}")
    elif finding.observed is not None:
        n = f"{finding.observed.n:,.0f} {unit(finding)}"
        parts.append(f"measured on {n}, the true rate is likely {_likely(finding)}")
    if level := _level(finding):
        parts.append(level)
    name = _LATENCIES.get(finding.alert.stream.metric)
    if name and usual_ms is not None and finding.typical_ms is None:
        parts.append(f"{duration(usual_ms / 1_000.0)} is the usual {name}")
    if confidence := _confidence(finding):
        parts.append(confidence)
    return "; ".join(parts)


def measurement(finding: Finding, measured: Measured) -> str:
    """A value with its range: ``88 % (likely 85–91 %, from 412 queries)``."""
    mean, lower, upper = _as_spoken(finding, measured)
    n = f"{measured.n:,.0f} {unit(finding)}"
    return f"{share(mean)} (likely {_range(lower, upper)}, from {n})"


def unit(finding: Finding) -> str:
    """Plural of the samples behind a value: ``queries``, ``ratings``."""
    return _UNITS.get(family(finding.alert.stream.metric), "queries")


def limit(finding: Finding) -> str:
    """A limit in the direction that people speak of: ``at least 80 %``."""
    if is_good(finding):
        return f"at least {share(1.0 - finding.tolerated)}"
    return f"at most {share(finding.tolerated)}"


def symptom(finding: Finding) -> str:
    """A finding in a few words: ``hit rate 48 % (82 %)``, with the expected value behind it."""
    key = finding.alert.stream
    loss = loss_of(key.metric)
    name = "slow queries" if key.metric in _LATENCIES else loss.good or loss.bad
    if finding.alert.kind == "no_data":
        return f"no {_ABSENT.get(key.metric, f'sample for {name}')}"
    if finding.typical_ms is not None:
        before, now = _drifted(finding)
        return f"latency {now} ({before})"
    expected = limit(finding)
    if finding.reference is not None:
        expected = share(_mean(finding, finding.reference), _more(finding))
    return f"{name} {_value(finding)} ({expected})"


def is_good(finding: Finding) -> bool:
    """True for a metric that people know as a share of good answers, such as the hit rate."""
    return bool(loss_of(finding.alert.stream.metric).good)


def share(ratio: float, more: int = 0) -> str:
    """A ratio as a percentage: ``48 %``, ``0.5 %``, ``99.7 %``; ``more`` decimals than usual."""
    return f"{_digits(ratio, more)} %"


def duration(seconds: float) -> str:
    """A latency: ``850 ms``, ``1.8 s``, ``42 s``."""
    if seconds < 1.0:
        return f"{1_000.0 * seconds:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 10.0 else f"{seconds:.0f} s"


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


def shorten(text: str, most: int) -> str:
    """A name of at most that many characters, without its middle if it is longer."""
    if len(text) <= most:
        return text
    head = most // 2
    tail = most - 1 - head
    return f"{text[:head]}…{text[len(text) - tail :]}"


def _first_line(finding: Finding, key: StreamKey, now: float, usual_ms: float | None) -> str:
    if finding.alert.kind == "no_data":
        return _absence(finding, key, now)
    if finding.alert.kind == "drift":
        return _drift(finding, key)
    where = f" in {key.dimension} {key.value}" if key.dimension else ""
    what = f"{_change(finding, key, usual_ms)} ({_expected(finding)}){where}"
    if finding.changed_at is not None:
        return f"{what} since {moment(finding.changed_at, now)}"
    return f"{what} over the last {length(finding.window_s)}" if finding.window_s else what


def _change(finding: Finding, key: StreamKey, usual_ms: float | None) -> str:
    value = _value(finding)
    if key.metric in _LATENCIES:
        slow = "slower than usual" if usual_ms is None else f"over {duration(usual_ms / 1_000.0)}"
        verb = " rose" if _verb(finding) == "rose to" else ""
        return f"latency of {key.pipeline}{verb}: {value} of queries {slow}"
    loss = loss_of(key.metric)
    return f"{loss.good or loss.bad} of {key.pipeline} {_verb(finding)} {value}"


def _verb(finding: Finding) -> str:
    """A direction where there is something to compare with."""
    observed, reference = finding.observed, finding.reference
    if observed is None or reference is None or observed.mean <= reference.mean:
        return "is"
    return "fell to" if is_good(finding) else "rose to"


def _expected(finding: Finding) -> str:
    if finding.reference is not None:
        return f"expected {share(_mean(finding, finding.reference), _more(finding))}"
    return f"{limit(finding)} {'required' if is_good(finding) else 'allowed'}"


def _value(finding: Finding) -> str:
    if finding.observed is None:
        return "unknown"
    return share(_mean(finding, finding.observed), _more(finding))


def _more(finding: Finding) -> int:
    """Decimals to add so that value and expected value do not read the same."""
    if finding.observed is None or finding.reference is None:
        return 0
    means = (finding.observed.mean, finding.reference.mean)
    return next((more for more in range(3) if len({share(m, more) for m in means}) > 1), 0)


def _absence(finding: Finding, key: StreamKey, now: float) -> str:
    loss = loss_of(key.metric)
    what = _ABSENT.get(key.metric, f"sample for {loss.good or loss.bad}")
    of = f" of {key.pipeline}" if key.pipeline else ""
    where = f" from {key.dimension} {key.value}" if key.dimension else ""
    since = f" since {moment(finding.changed_at, now)}" if finding.changed_at is not None else ""
    expected = f" (about {finding.reference.n:,.0f} expected)" if finding.reference else ""
    return f"no {what}{of}{where}{since}{expected}"


def _drift(finding: Finding, key: StreamKey) -> str:
    loss = loss_of(key.metric)
    what = loss.good or loss.bad
    if key.metric in _LATENCIES:
        what = "latency" if finding.typical_ms else "share of slow queries"
    where = f" in {key.dimension} {key.value}" if key.dimension else ""
    before, now = _drifted(finding)
    begun = finding.changed_at
    since = "" if begun is None else f" since about {datetime.fromtimestamp(begun, UTC):%Y-%m-%d}"
    return f"{what} of {key.pipeline} has drifted from {before} to {now}{where}{since}"


def _drifted(finding: Finding) -> tuple[str, str]:
    """Levels of the week before and since: ``92 %``, of latencies ``0.9 s``."""
    if finding.typical_ms is not None:
        before_ms, since_ms = finding.typical_ms
        return duration(before_ms / 1_000.0), duration(since_ms / 1_000.0)
    if finding.reference is None:
        return "unknown", _value(finding)
    return share(_mean(finding, finding.reference), _more(finding)), _value(finding)


def _level(finding: Finding) -> str:
    """The source of the expected value, or of an objective's limit."""
    if finding.alert.kind in ("no_data", "threshold") or not finding.reference_text:
        return ""
    if finding.typical_ms is not None:
        return f"{_drifted(finding)[0]} is the level {finding.reference_text}"
    if finding.reference is None:
        return f"{limit(finding)} {finding.reference_text}"
    expected = share(_mean(finding, finding.reference), _more(finding))
    return f"{expected} is the level {finding.reference_text}"


def _confidence(finding: Finding) -> str:
    """The chance of a false alarm, in words; each kind of detector promises something else."""
    kind = finding.alert.kind
    if kind == "threshold":
        return (
            "this is a fixed limit, which chance alone can exceed: "
            "`ragmon backtest` shows how often it would have fired"
        )
    if finding.evidence is None or kind == "no_data":
        return finding.guarantee
    if kind == "canary":  # one over the evidence bounds the chance to reach it, ever (Ville)
        rare = "a million" if finding.evidence >= 1e6 else f"{finding.evidence:,.0f}"
        return f"a version that is no worse looks this bad in at most 1 of {rare} comparisons"
    # Evidence of the other detectors is the mean time between false alarms of one stream.
    return f"a false alarm this strong is expected {_once_in(finding.evidence * MINUTE_S)}"


def _once_in(seconds: float) -> str:
    days = seconds / _DAY_S
    if days >= 100.0 * _YEAR_DAYS:
        return "less than once in 100 years"
    for size, unit in ((_YEAR_DAYS, "years"), (_MONTH_DAYS, "months"), (1.0, "days")):
        if days >= 2.0 * size:
            return f"at most about once in {days / size:,.0f} {unit}"
    return "at most about once a day"


def _as_spoken(finding: Finding, measured: Measured) -> tuple[float, float, float]:
    """Mean, lower and upper limit as people speak of the metric: 1 - loss for a hit rate."""
    if is_good(finding):
        return 1.0 - measured.mean, 1.0 - measured.upper, 1.0 - measured.lower
    return measured.mean, measured.lower, measured.upper


def _mean(finding: Finding, measured: Measured) -> float:
    return _as_spoken(finding, measured)[0]


def _likely(finding: Finding) -> str:
    assert finding.observed is not None
    _, lower, upper = _as_spoken(finding, finding.observed)
    return _range(lower, upper)


def _range(lower: float, upper: float) -> str:
    return f"{_digits(lower)}–{_digits(upper)} %"


def _digits(ratio: float, more: int = 0) -> str:
    """Percent without its sign; the nearer to 0 or 100, the more decimals matter."""
    ratio = min(max(ratio, 0.0), 1.0)
    from_end = min(ratio, 1.0 - ratio)
    decimals = (0 if from_end >= 0.05 else 1 if from_end >= 0.005 else 2) + more
    text = f"{100.0 * ratio:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text
