"""The reference of all metrics, out of what ragmon really exposes."""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from prometheus_client.registry import Collector

from ragmon.config import Settings
from ragmon.daemon.build import build_pipeline
from ragmon.daemon.following import watch_following
from ragmon.daemon.ingest.metrics import watch_bodies
from ragmon.daemon.producing import watch_produced
from ragmon.daemon.worker import watch_shards
from ragmon.exposition.choice import MetricChoice
from ragmon.exposition.counted import by_version
from ragmon.exposition.gauges import Gauges
from ragmon.exposition.own import OwnMetrics
from ragmon.exposition.probes import ProbeMetrics
from tests.support.daemons import running
from tests.support.golden import GOLDEN
from tests.support.metrics import samples
from tests.support.stand_in_model import StandInModel

COMPANIONS = ("_lower", "_upper", "_samples")
PARTS = ("_bucket", "_sum", "_count")


class Family(NamedTuple):
    """One metric."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


def families() -> list[Family]:
    """Those of the golden page in its order, then what is off on that day or has no samples."""
    declared = {each.name: each for each in (*_rolling(), *_counted(), *_declared())}
    found = [
        each if each.labels else each._replace(labels=declared.get(each.name, each).labels)
        for each in _golden()
    ]
    names = {each.name for each in found}
    return found + [each for name, each in declared.items() if name not in names]


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


def _golden() -> Iterator[Family]:
    page = (GOLDEN / "metrics.txt").read_text(encoding="utf-8")
    helps = dict(re.findall(r"(?m)^# HELP (\S+) (.+)$", page))
    labels: dict[str, dict[str, None]] = {}
    for sample in samples(page):
        name = sample.name
        if name not in helps:
            name = next(name.removesuffix(part) for part in PARTS if name.endswith(part))
        labels.setdefault(name, {}).update(dict.fromkeys(sample.labels))
    for name, kind in re.findall(r"(?m)^# TYPE (\S+) (\S+)$", page):
        yield Family(name, kind, tuple(labels.get(name, ())), helps[name])


def _rolling() -> Iterator[Family]:
    """Gauges of the windows, whether a query fills them or not."""
    columns = build_pipeline(_with_custom_judge()).catalogue.columns
    shown = Gauges(columns, MetricChoice(intervals="all"))
    labels = {f"ragmon_{gauge.name}": [name for name, _ in gauge.labels] for gauge in shown.all}
    for each in shown.families(()):
        if not each.name.startswith("ragmon_slice_"):
            yield Family(
                each.name, each.kind, ("pipeline", "window", *labels[each.name]), each.help
            )


def _counted() -> Iterator[Family]:
    """Counters of what only some configurations count."""
    table = by_version(build_pipeline(_with_custom_judge()).catalogue.columns)
    for counter in table.counters:
        own = [name for name, _ in counter.readings[0].labels]
        labels = ("pipeline", "version", *own)
        yield Family(table.name(counter), "counter", labels, table.help(counter))


def _with_custom_judge() -> Settings:
    return Settings(judge={"custom": [{"name": "own", "kind": "python", "entry": "own:judge"}]})


def _declared() -> Iterator[Family]:
    """What a daemon registers of itself with everything on, whether it has samples or not."""
    model = {"base_url": "http://127.0.0.1:9/v1", "model": "none"}
    with tempfile.TemporaryDirectory() as folder:
        anchors = Path(folder) / "anchors.jsonl"
        stand_in = StandInModel(Path(folder))
        anchors.write_text('{"query": "q", "answer": "a", "chunks": []}', encoding="utf-8")
        given = {
            "judge__llm": model,
            "judge__grounding__enabled": True,
            "judge__local": {"kind": "nli", "model": str(stand_in.model)},
            "judge__anchors": str(anchors),
            "otlp_export": {"endpoint": "http://127.0.0.1:9/v1/traces"},
            "metrics__otlp__endpoint": "http://127.0.0.1:9/v1/metrics",
        }
        with stand_in.installed(), running(Path(folder) / "data", **given) as site:
            for collector in site.daemon._context.own.registry._collector_to_names:
                yield from _of(collector)
    yield from _of(ProbeMetrics(lambda: ()))
    roles = OwnMetrics()
    watch_shards(roles, dict, lambda: 0.0)
    zero = dict.fromkeys(("lag_s", "complete_until", "stalled", "handed"), lambda: 0.0)
    watch_following(roles, **zero)
    watch_bodies(roles, _Bodies())
    watch_produced(roles, dict)
    for collector in roles.registry._collector_to_names:
        yield from _of(collector)


class _Bodies:
    """Bodies in an object store, of which nothing is known."""

    pending_bytes = objects = object_bytes = moved_bytes = 0
    most_pending_bytes = None
    stalled_s = 0.0

    def requests(self) -> dict[tuple[str, ...], float]:
        return {}


def _of(collector: Collector) -> Iterator[Family]:
    for each in collector.collect():
        name = f"{each.name}_total" if each.type == "counter" else each.name
        watched = getattr(each, "watched", None)  # of ragmon.exposition.own
        declared = (getattr(kind, "_labelnames", None) for kind in (collector, each))
        labels = next(filter(None, declared), None) or getattr(watched, "labels", ())
        yield Family(name, each.type, tuple(labels), each.documentation)
