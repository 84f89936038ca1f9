"""What detection costs: a minute of many streams, a replay, a backtest from file to table."""

import contextlib
import io
import json
import tempfile
import time
from pathlib import Path

import numpy as np
from detection_worlds import DAY, MONDAY, Traffic, World

from ragmon.alerts.timeline import AlertTimeline
from ragmon.backtest.run import replay
from ragmon.cli import main
from ragmon.detectors import StreamKey
from ragmon.detectors.detection import Detection, DetectionOptions
from ragmon.detectors.losses import DETECTED
from ragmon.detectors.rules import build
from ragmon.windows.observations import Observations

_HEALTHY = World(level=0.02)  # within the shipped objective, so that nothing fires


def ticks(streams: int, minutes: int) -> tuple[np.ndarray, int]:
    """CPU milliseconds of each minute of so many streams, all detectors; bytes of the log."""
    detection = Detection([], build(), DetectionOptions(max_streams=2 * streams, lag_s=0.0))
    metrics = ("traffic", *DETECTED)
    keys = [
        StreamKey(f"p{at // len(metrics)}", metrics[at % len(metrics)]) for at in range(streams)
    ]
    rows = np.array([detection.streams.row(key) for key in keys])
    found = []
    for minute, cells in Traffic(_HEALTHY, np.ones(streams), 9).month(minutes):
        detection.log.begin(minute)
        detection.add_cells(np.full(streams, minute), rows, cells)
        started = time.process_time()
        list(detection.advance(minute + 1))
        found.append(1000 * (time.process_time() - started))
    return np.array(found), detection.log.nbytes


def replayed() -> tuple[int, float]:
    """Records and CPU seconds of two days at 5 queries a second, already observed."""
    columns = (
        "error",
        "zero_result",
        "hit{k=5,evidence=citation}",
        "attribution",
        "uncited",
        "positive_feedback",
        "slow",
        "latency_ms{stage=total}",
    )
    rng = np.random.default_rng(1)
    n = 2 * DAY * 300
    values = (rng.random((n, len(columns))) < 0.02).astype(float)
    values[:, -1] = rng.lognormal(6.8, 0.5, n)
    stamps = np.sort(rng.uniform(MONDAY * 60.0, (MONDAY + 2 * DAY) * 60.0, n))
    whole = Observations((), [("docs", "v1")], np.zeros(n, dtype=np.int32), stamps, values)
    timeline = AlertTimeline(
        lambda: Detection(columns, build(), DetectionOptions()), finished_log=True
    )
    started = time.process_time()
    for _ in replay(timeline, whole):
        pass
    return n, time.process_time() - started


def backtested(days: float, rate_qps: float) -> tuple[int, float, float]:
    """Records, CPU seconds of ``ragmon backtest`` on a file of them, bytes a record."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.jsonl"
        records = _log(path, days, rate_qps)
        size = path.stat().st_size / records
        args = ["backtest", f"--data_dir={folder}", str(path)]
        with contextlib.redirect_stdout(io.StringIO()) as said:
            started = time.process_time()
            assert main(args) == 0
            seconds = time.process_time() - started
        assert f"{records:,} queries" in said.getvalue()
        return records, seconds, size


def _log(path: Path, days: float, rate_qps: float) -> int:
    rng = np.random.default_rng(4)
    n = int(days * 86_400 * rate_qps)
    stamps = np.sort(rng.uniform(MONDAY * 60.0, (MONDAY + days * DAY) * 60.0, n)).tolist()
    latency, drawn = rng.lognormal(6.8, 0.5, n).tolist(), rng.random((n, 3)).tolist()
    chunks = [{"id": f"doc-{at}", "score": round(0.9 - 0.1 * at, 2)} for at in range(5)]
    with path.open("w", encoding="utf-8") as file:
        for at in range(n):
            empty, missed, liked = drawn[at]
            record = {
                "query_id": f"q{at}",
                "timestamp": stamps[at],
                "pipeline": "docs",
                "version": "v1",
                "chunks": [] if empty < 0.02 else chunks,
                "citations": [] if missed < 0.08 else ["doc-0"],
                "latency_ms": latency[at],
            }
            if liked < 0.3:
                record["feedback"] = "positive" if liked < 0.2 else "negative"
            file.write(json.dumps(record) + "\n")
    return n
