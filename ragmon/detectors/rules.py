"""Rules: the entries of ``detectors.rules``, resolved; and those that ship."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from pydantic import BaseModel

from ragmon.detectors import DetectorKind, DetectorState, NamesRules
from ragmon.plugins import resolve

DEFAULT_RULES: tuple[dict[str, Any], ...] = (
    {"kind": "anomaly"},
    {"kind": "canary"},
    {"kind": "drift"},
    {"kind": "no_data"},
    {"kind": "regression"},
    {"kind": "repeats"},
    {"kind": "slo", "metric": "error", "objective": 0.95},
    # What people expect, as rates over windows and not one page a query.
    {"kind": "threshold", "metric": "slow", "limit": 0.2, "window": 900.0},
    {"kind": "threshold", "metric": "zero_result", "limit": 0.3, "window": 900.0},
    {"kind": "threshold", "metric": "low_score", "limit": 0.5, "window": 900.0},
    {"kind": "threshold", "metric": "hit", "drop": 0.05, "window": 3_600.0},
)


class Rule(Struct, frozen=True):
    """A kind of detector with checked options."""

    kind: DetectorKind[BaseModel, DetectorState]
    options: BaseModel

    @property
    def metric(self) -> str:
        """The metric that is watched; empty for a kind that watches several."""
        return str(getattr(self.options, "metric", ""))

    @property
    def name(self) -> str:
        """Name among the rules of its kind and metric; empty where there is only one."""
        return self.kind.rule_name(self.options) if isinstance(self.kind, NamesRules) else ""


def build(rules: Sequence[Mapping[str, Any]] = DEFAULT_RULES) -> list[Rule]:
    """The rules with their options checked.

    Raises:
        SettingsError: an unknown kind, or options it does not know; names the rule.
    """
    return [
        Rule(*resolve("ragmon.detectors", f"detectors.rules.{at}", rule))
        for at, rule in enumerate(rules)
    ]


def combined(own: Sequence[Mapping[str, Any]], *, defaults: bool) -> list[Mapping[str, Any]]:
    """The operator's own rules, then the shipped ones of other kinds and metrics."""
    taken = {_subject(rule) for rule in own}
    kept = [rule for rule in DEFAULT_RULES if defaults and _subject(rule) not in taken]
    return [*own, *kept]


def _subject(rule: Mapping[str, Any]) -> tuple[str, str]:
    return str(rule.get("kind", "")), str(rule.get("metric", ""))
