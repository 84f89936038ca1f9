"""From ``detectors.rules`` to detectors, and the rules that apply when none are given."""

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from pydantic import BaseModel

from ragmon.plugins import resolve

DEFAULT_RULES: tuple[dict[str, Any], ...] = (
    {"kind": "anomaly"},
    {"kind": "canary"},
    {"kind": "no_data"},
    {"kind": "regression"},
    {"kind": "slo", "metric": "error", "objective": 0.95},
    # What people expect, as rates over windows and not one page a query.
    {"kind": "threshold", "metric": "slow", "limit": 0.2, "window": 900.0},
    {"kind": "threshold", "metric": "zero_result", "limit": 0.3, "window": 900.0},
    {"kind": "threshold", "metric": "low_score", "limit": 0.5, "window": 900.0},
    {"kind": "threshold", "metric": "hit", "drop": 0.05, "window": 3_600.0},
)


def build(rules: Sequence[Mapping[str, Any]] = DEFAULT_RULES) -> list[tuple[ModuleType, BaseModel]]:
    """The module and the checked options of each rule.

    Raises:
        SettingsError: an unknown kind, or options it does not know; names the rule.
    """
    return [
        resolve("ragmon.detectors", f"detectors.rules.{at}", rule) for at, rule in enumerate(rules)
    ]


def combined(given: Sequence[Mapping[str, Any]], *, defaults: bool) -> list[Mapping[str, Any]]:
    """Given rules, then the shipped ones that are not of the same kind and metric."""
    taken = {_subject(rule) for rule in given}
    kept = [rule for rule in DEFAULT_RULES if defaults and _subject(rule) not in taken]
    return [*given, *kept]


def _subject(rule: Mapping[str, Any]) -> tuple[str, str]:
    return str(rule.get("kind", "")), str(rule.get("metric", ""))
