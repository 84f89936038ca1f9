"""Cost of each rule over a log: alerts in thirty days, and what is promised of them."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from ragmon.backtest.run import Episode, History, episodes
from ragmon.detectors import AlertKey, canary, drift
from ragmon.detectors.losses import INDEX, REPEAT, LossMap, cells
from ragmon.detectors.rules import DEFAULT_RULES, Rule, build
from ragmon.percentages import percent_text
from ragmon.windows.observations import Observations

MONTH_DAYS = 30.0
_AT_ONCE = 10_000  # records, since their losses take much memory

_NAIVE_DROP = {"kind": "threshold", "metric": "hit", "drop": 0.05, "sure": 0.0, "min_samples": 1.0}
_PER_QUERY = {
    "slow": "a page for each slow query",
    "zero_result": "a page for each query without documents",
    "low_score": "a page for each query with a low best score",
}


class Cost(Struct, frozen=True, kw_only=True):
    """One rule over the whole log."""

    rule: str
    notified: int  # episodes with a notification
    suppressed: int  # effects of other alerts, silenced or in a maintenance window
    per_month: float  # with a notification, in thirty days
    firing_s: float  # together
    promise: str  # false alarms that are allowed for


def simpler(rules: Sequence[Rule]) -> list[Rule]:
    """The plain rules that people start with, but for those that are among ``rules``."""
    plain = [rule for rule in DEFAULT_RULES if rule["kind"] == "threshold"]
    taken = {named(rule) for rule in rules}
    return [rule for rule in build([*plain, _NAIVE_DROP]) if named(rule) not in taken]


def named(rule: Rule) -> str:
    """A rule in a few words: ``threshold hit drop=0.05/3600s``."""
    return " ".join(filter(None, (rule.kind.KIND, rule.metric, rule.name)))


def raised_by(rule: Rule, key: AlertKey) -> bool:
    """True when an alert is of a rule."""
    name = rule.name
    same = key.kind == rule.kind.KIND and key.stream.metric == (rule.metric or key.stream.metric)
    return same and (key.rule == name or key.rule.startswith(f"{name}/") or not name)


def by_rule(
    rules: Sequence[Rule], history: History, *, on_trial: bool = False, total: float
) -> list[Cost]:
    """The cost of each rule, in their order, those without any alert too.

    Args:
        rules: that were judged.
        history: of the log.
        on_trial: the rules are not configured.
        total: false alarms a month that are allowed, of everything together.
    """
    alerts = episodes(history.trial_events if on_trial else history.events)
    return [
        _cost(rule, [alert for alert in alerts if raised_by(rule, alert.key)], history, total)
        for rule in rules
    ]


def per_query(
    observations: Observations, columns: Sequence[str], history: History
) -> list[tuple[str, int, float]]:
    """Cost of alerting on single queries: (rule, pages, pages in thirty days).

    Rules whose metric was not recorded are left out.
    """
    of_every_query = [name if name != REPEAT else "" for name in columns]
    losses = LossMap(of_every_query)
    sums = np.zeros((len(losses.metrics), 3))
    for at in range(0, len(observations), _AT_ONCE):
        sums += cells(losses.losses(observations.values[at : at + _AT_ONCE])).sum(axis=0)
    known = [(text, sums[INDEX[metric]]) for metric, text in _PER_QUERY.items()]
    return [(text, int(lost), _monthly(lost, history)) for text, (n, lost, _) in known if n > 0.0]


def _cost(rule: Rule, alerts: Sequence[Episode], history: History, total: float) -> Cost:
    notified = [alert for alert in alerts if alert.notified]
    ends = (history.last if alert.ended is None else alert.ended for alert in notified)
    return Cost(
        rule=named(rule),
        notified=len(notified),
        suppressed=len(alerts) - len(notified),
        per_month=_monthly(len(notified), history),
        firing_s=sum(end - alert.opened for end, alert in zip(ends, notified, strict=True)),
        promise=_promise(rule, total),
    )


def _promise(rule: Rule, total: float) -> str:
    if isinstance(rule.options, canary.Options):
        return f"at most {percent_text(rule.options.alpha, 0)} of versions"
    if rule.kind.KIND in ("threshold", "slo", "repeats"):
        return "none: a fixed limit"
    if isinstance(rule.options, drift.Options):
        return f"at most {rule.options.false_alarms_per_month:g} in all"
    return f"at most {total:g} in all"


def _monthly(count: float, history: History) -> float:
    return count * MONTH_DAYS / max(history.days, 1.0)
