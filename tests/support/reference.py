"""The reference of all metrics, out of the golden page: what /metrics really says."""

import re
from typing import NamedTuple

from ragmon.exposition.own import OwnMetrics
from tests.support.golden import GOLDEN
from tests.support.metrics import samples

COMPANIONS = ("_lower", "_upper", "_samples")
PARTS = ("_bucket", "_sum", "_count")


class Family(NamedTuple):
    """One metric as the page describes it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


def families() -> list[Family]:
    """Every metric of the page, in its order."""
    page = (GOLDEN / "metrics.txt").read_text(encoding="utf-8")
    helps = dict(re.findall(r"(?m)^# HELP (\S+) (.+)$", page))
    labels: dict[str, dict[str, None]] = {}
    for sample in samples(page):
        name = sample.name
        if name not in helps:
            name = next(name.removesuffix(part) for part in PARTS if name.endswith(part))
        labels.setdefault(name, {}).update(dict.fromkeys(sample.labels))
    return [
        Family(name, kind, tuple(labels.get(name) or _declared(name)), helps[name])
        for name, kind in re.findall(r"(?m)^# TYPE (\S+) (\S+)$", page)
    ]


def rows() -> list[str]:
    """A row a metric; companions and slices, which follow a pattern, are left out."""
    found = families()
    names = {each.name for each in found}

    def follows(name: str) -> bool:
        bases = {name.removesuffix(suffix) for suffix in COMPANIONS if name.endswith(suffix)}
        return name.startswith("ragmon_slice_") or bool(bases & names)

    return [
        f"| `{each.name}` | {each.kind} | {', '.join(f'`{label}`' for label in each.labels)} "
        f"| {each.help.replace('|', chr(92) + '|')} |"
        for each in found
        if not follows(each.name)
    ]


def _declared(name: str) -> tuple[str, ...]:
    """The labels of a metric that has no sample yet."""
    registered = OwnMetrics().registry._names_to_collectors
    return tuple(registered[name]._labelnames) if name in registered else ()
