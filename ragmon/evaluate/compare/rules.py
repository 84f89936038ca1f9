"""Rules of a gate, and the metrics and cases that each one checks."""

import difflib
import math
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct

from ragmon.evaluate.document import Evaluation, Summary
from ragmon.evaluate.errors import DataError
from ragmon.evaluate.score import strata
from ragmon.evaluate.score.metrics import is_headline


class GateRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of one metric."""

    metric: str  # a name, or a pattern such as ``recall@*``
    max_drop: float | None = None  # the mean may get worse by this
    min_value: float | None = None
    max_value: float | None = None
    stratum: str = ""  # ``key=value``, or ``key`` for each of its values; all cases when empty

    def __post_init__(self) -> None:
        """Refuse a rule that would always pass.

        Raises:
            ValueError: there is no limit, one that is not a finite number, or a negative fall.
        """
        values = (self.max_drop, self.min_value, self.max_value)
        limits = [limit for limit in values if limit is not None]
        if not limits:
            raise ValueError("a rule needs max_drop, min_value or max_value")
        for limit in limits:
            if not math.isfinite(limit):
                raise ValueError(f"{limit} is not a finite number")
        if self.max_drop is not None and self.max_drop < 0.0:
            raise ValueError("max_drop must be at least 0: it is how much worse the mean may get")

    @property
    def each_stratum(self) -> bool:
        """True if the rule checks every value of a metadata key by itself."""
        return bool(self.stratum) and "=" not in self.stratum


class Policy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules of a gate and the thresholds of its decision."""

    rules: tuple[GateRule, ...] = ()  # none: every headline metric, max_drop 0
    alpha: float = 0.05  # chance that any rule fails although nothing got worse
    min_effect: float = 0.01  # smaller falls never fail, however certain
    max_missing: float = 0.05  # share of the baseline's cases that may lack a result
    strict: bool = False  # a fall that is not proven fails too

    def __post_init__(self) -> None:
        """Refuse thresholds that would make every gate pass, or none.

        Raises:
            ValueError: a figure is out of its range.
        """
        if not 0.0 < self.alpha < 1.0:
            raise ValueError("alpha must be between 0 and 1")
        if not 0.0 <= self.max_missing <= 1.0:
            raise ValueError("max_missing must be a share between 0 and 1")
        if not 0.0 <= self.min_effect < math.inf:
            raise ValueError("min_effect must be at least 0")


class Target(Struct, frozen=True):
    """One rule applied to one metric and stratum."""

    rule: GateRule
    metric: Summary
    stratum: str  # ``key=value``; all cases when empty
    rows: list[int]  # of the current evaluation


def targets(rule: GateRule, current: Evaluation) -> Iterator[Target]:
    """The metrics and strata that a rule matches.

    Raises:
        DataError: it names an unknown metric or stratum.
    """
    for metric in _matching(rule, current):
        for stratum, rows in _rows(rule, current):
            yield Target(rule, metric, stratum, rows)


def headline_rules(baseline: Evaluation, current: Evaluation) -> tuple[GateRule, ...]:
    """The rules of a gate that has none.

    Raises:
        DataError: the two share no headline metric.
    """
    shared = [metric.name for metric in current.metrics if baseline.summary(metric.name)]
    chosen = [name for name in shared if is_headline(name)]
    if not chosen:
        raise DataError(
            "the two evaluations share no headline metric",
            hint="Choose metrics with --max-drop METRIC=NUMBER",
        )
    return tuple(GateRule(metric=name, max_drop=0.0) for name in chosen)


def rules_of(
    max_drops: Sequence[str], minima: Sequence[str], maxima: Sequence[str]
) -> list[GateRule]:
    """Rules from flags ``METRIC[:STRATUM]=NUMBER``.

    Raises:
        DataError: one of them is not of that form.
    """
    flags = {"max_drop": max_drops, "min_value": minima, "max_value": maxima}
    return [_rule(flag, field) for field, values in flags.items() for flag in values]


_FLAGS = {"max_drop": "--max-drop", "min_value": "--min", "max_value": "--max"}


def _rule(flag: str, field: str) -> GateRule:
    name, _, number = flag.rpartition("=")
    metric, _, stratum = name.partition(":")
    hint = "Write METRIC=NUMBER or METRIC:KEY=VALUE=NUMBER"
    try:
        limit = float(number)
    except ValueError as error:
        raise DataError(f"{flag!r} has no number", field=_FLAGS[field], hint=hint) from error
    if not metric:
        raise DataError(f"{flag!r} names no metric", field=_FLAGS[field], hint=hint)
    try:
        return GateRule(metric=metric, stratum=stratum, **{field: limit})
    except ValueError as error:
        raise DataError(f"{flag!r}: {error}", field=_FLAGS[field]) from error


def _matching(rule: GateRule, current: Evaluation) -> list[Summary]:
    matching = [metric for metric in current.metrics if fnmatchcase(metric.name, rule.metric)]
    if matching:
        return matching
    if rule.metric in current.absent:
        raise DataError(f"is absent: {current.absent[rule.metric]}", field=rule.metric)
    names = [metric.name for metric in current.metrics]
    near = difflib.get_close_matches(rule.metric, names, n=1, cutoff=0.4)
    hint = f"Did you mean {near[0]}?" if near else f"Its metrics are {', '.join(names)}"
    raise DataError("is not a metric of this evaluation", field=rule.metric, hint=hint)


def _rows(rule: GateRule, current: Evaluation) -> Iterator[tuple[str, list[int]]]:
    """(stratum, rows of the current evaluation) that a rule looks at."""
    if not rule.stratum:
        yield "", list(range(len(current.cases)))
        return
    key, _, value = rule.stratum.partition("=")
    metadata = [case.metadata for case in current.cases]
    groups = strata.groups(metadata, [case.query for case in current.cases], [key])
    chosen = [group for group in groups if value in ("", group.value)]
    if not chosen:
        values = [f"{key}={group.value}" for group in groups]
        known = values or list(strata.labelled(metadata, [case.query for case in current.cases]))
        hint = f"{'There are' if values else 'The keys are'} {', '.join(known)}"
        raise DataError(f"no case has {rule.stratum!r}", field=rule.metric, hint=hint)
    for group in chosen:
        yield f"{key}={group.value}", list(group.rows)
