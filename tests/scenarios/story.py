"""Scenarios: synthetic queries by the levels of a story, judged by what ships."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import yaml
from msgspec import Struct, field

from ragmon.alerts import AlertEvent
from ragmon.alerts.notices import IncidentNotice
from ragmon.alerts.timeline import AlertTimeline, Step
from ragmon.detectors.detection import Detection, DetectionOptions
from ragmon.detectors.intake import ObservationBuffer
from ragmon.detectors.rules import DEFAULT_RULES, build
from ragmon.signals import SignalOptions
from ragmon.signals.catalogue import build as build_catalogue
from ragmon.windows.observations import Observations

STORIES = Path(__file__).parent
START = 29_000_160  # unix minutes, midnight
COLUMNS = tuple(column.key for column in build_catalogue(SignalOptions(low_score=0.2)).columns)
_LATENCY = "latency_ms{stage=total}"
_HIT = "hit{k=5,evidence=citation}"


class Incident(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that goes wrong for a while; minutes after the history."""

    at: int
    lasts: int
    loss: dict[str, float] = {}  # mean losses meanwhile
    traffic: float = 1.0  # times the usual
    latency: float = 1.0  # times the usual
    version: str = ""  # only this one


class Expected(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One episode that must be notified."""

    alert: str
    opens: tuple[int, int]  # minutes after the history, at the earliest and the latest
    resolves: tuple[int, int] | None = None
    says: str = ""  # part of its two lines


class Story(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Events of a scenario, and the notifications that must follow."""

    title: str
    history: int  # minutes of normal traffic before
    lasts: int  # minutes after them
    rate: float = 1.0  # queries a second
    loss: dict[str, float]  # usual mean losses
    season: float = 0.0  # half the swing of the miss rate over a day
    night: float = 0.0  # share of the traffic that goes away at night
    rush: float = 0.0  # how much slower than usual answers are at noon, and faster at midnight
    versions: dict[str, float] = field(default_factory=lambda: {"v1": 1.0})  # shares of traffic
    canary_from: int | None = None  # minute of the story from which the second version runs
    incidents: tuple[Incident, ...] = ()
    expect: tuple[Expected, ...] = ()
    rules: tuple[dict[str, Any], ...] = DEFAULT_RULES
    seed: int = 1


def load(path: Path) -> Story:
    """A story from its file."""
    return msgspec.convert(yaml.safe_load(path.read_text()), Story)


def timeline(story: Story) -> tuple[AlertTimeline, ObservationBuffer]:
    """Detectors and alerts that have seen nothing, and the buffer that feeds them."""
    buffer = ObservationBuffer(COLUMNS)
    detection = functools.partial(Detection, buffer.columns, build(story.rules), DetectionOptions())
    return AlertTimeline(detection), buffer


def live(story: Story, turn_s: float = 60.0) -> list[AlertEvent]:
    """Every transition, with a turn every so many seconds."""
    return [event for step in lived(story, turn_s) for event in step.events]


def notified(story: Story) -> list[IncidentNotice]:
    """Every notification, with a turn every minute."""
    return [notice for step in lived(story) for notice in step.incident_notices]


def lived(story: Story, turn_s: float = 60.0) -> Iterator[Step]:
    """Every step, with a turn every so many seconds."""
    line, buffer = timeline(story)
    for minute, batch in queries(story):
        for turn in range(int(60.0 // turn_s)):
            begins = minute * 60.0 + turn * turn_s
            if batch is not None:
                rows = (batch.timestamps >= begins) & (batch.timestamps < begins + turn_s)
                if rows.any():
                    buffer.log(batch.select(rows))
            yield from line.advance(buffer.take(), begins + turn_s)


def caught_up(story: Story, records: int) -> list[AlertEvent]:
    """Every transition, with the queries sent late: so many at once, after it all happened."""
    line, buffer = timeline(story)
    events: list[AlertEvent] = []
    log, now = whole(story), 60.0 * (START + story.history + story.lasts + 60)
    for at in range(0, len(log), records):
        buffer.log(log.select(np.arange(at, min(at + records, len(log)))))
        for step in line.advance(buffer.take(), now):
            events += step.events
    return events


def queries(story: Story) -> Iterator[tuple[int, Observations | None]]:
    """The queries of each minute, None without any."""
    rng = np.random.default_rng(story.seed)
    for minute in range(START, START + story.history + story.lasts):
        at = minute - START - story.history
        now = [each for each in story.incidents if each.at <= at < each.at + each.lasts]
        yield minute, _minute(story, minute, at, now, rng)


def whole(story: Story) -> Observations:
    """All its queries."""
    return Observations.concatenate([batch for _, batch in queries(story) if batch is not None])


def log(story: Story) -> Iterator[bytes]:
    """Its queries as an application would log them."""
    observed = whole(story)
    names = ("error", "zero_result", _HIT, "positive_feedback", _LATENCY)
    columns = observed.values[:, [COLUMNS.index(name) for name in names]].tolist()
    stamps, which = observed.timestamps.tolist(), observed.dim_index.tolist()
    for at, (error, empty, hit, liked, latency) in enumerate(columns):
        pipeline, version = observed.dims[which[at]]
        record: dict[str, Any] = {
            "query_id": f"q{at}",
            "timestamp": stamps[at],
            "pipeline": pipeline,
            "version": version,
            "latency_ms": latency,
            "chunks": [] if empty else [{"id": "d1"}],
        }
        if hit == hit:  # NaN: unknown
            record["citations"] = ["d1"] if hit else []
        if liked == liked:
            record["feedback"] = liked * 2.0 - 1.0
        if error:
            record["error"] = "TimeoutError"
        yield msgspec.json.encode(record)


def _minute(
    story: Story, minute: int, at: int, now: list[Incident], rng: np.random.Generator
) -> Observations | None:
    phase = 2.0 * np.pi * (minute - START) / 1_440
    volume = 1.0 - story.night * (0.5 + 0.5 * np.cos(phase))
    for incident in now:
        volume *= incident.traffic
    n = int(rng.poisson(60.0 * story.rate * volume))
    if not n:
        return None
    names = [name for name in story.versions if _runs(story, name, at)]
    shares = np.array([story.versions[name] for name in names])
    which = rng.choice(len(names), n, p=shares / shares.sum()).astype(np.int32)
    values = np.full((n, len(COLUMNS)), np.nan)
    for version, name in enumerate(names):
        mine = which == version
        here = [each for each in now if each.version in ("", name)]
        _fill(values, mine, story, here, story.season * np.sin(phase), rng)
    latency = values[:, COLUMNS.index(_LATENCY)]
    latency *= np.exp(-story.rush * np.cos(phase))
    values[:, COLUMNS.index("slow")] = latency > 5_000.0
    seconds = np.sort(rng.uniform(0.0, 60.0, n))
    dims = [("docs", name) for name in names]
    return Observations((), dims, which, minute * 60.0 + seconds, values)


def _runs(story: Story, name: str, at: int) -> bool:
    first = next(iter(story.versions))
    return name == first or (story.canary_from is not None and at >= story.canary_from)


def _fill(
    values: np.ndarray,
    mine: np.ndarray,
    story: Story,
    now: list[Incident],
    swing: float,
    rng: np.random.Generator,
) -> None:
    """Observations of one version's queries in one minute."""
    count = int(mine.sum())
    levels = dict(story.loss)
    levels["hit"] = levels.get("hit", 0.0) + swing
    slower = 1.0
    for incident in now:
        levels.update(incident.loss)
        slower *= incident.latency
    drawn = {name: rng.random(count) for name in levels}
    if "hit" in drawn:
        drawn["zero_result"] = drawn["hit"]  # a query without documents is a miss
    lost = {name: drawn[name] < level for name, level in levels.items()}
    at = {name: COLUMNS.index(name) for name in ("error", "zero_result", "positive_feedback")}
    values[mine, at["error"]] = lost.get("error", np.zeros(count))
    values[mine, at["zero_result"]] = lost.get("zero_result", np.zeros(count))
    if "hit" in story.loss:
        values[mine, COLUMNS.index(_HIT)] = ~lost["hit"]
    if "positive_feedback" in story.loss:
        rated = rng.random(count) < 0.3
        values[mine, at["positive_feedback"]] = np.where(rated, ~lost["positive_feedback"], np.nan)
    latency = slower * rng.lognormal(6.8, 0.5, count)
    values[mine, COLUMNS.index(_LATENCY)] = latency
    values[mine, COLUMNS.index("slow")] = latency > 5_000.0
