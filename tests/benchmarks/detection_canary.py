"""G5: a canary watched for a week, and what Wald's test would need to see the same fall."""

import numpy as np
from detection_worlds import DAY, MONDAY, Traffic, World

from ragmon.detectors import StreamKey
from ragmon.detectors.detection import Detection, DetectionOptions
from ragmon.detectors.rules import build

ALPHA = 0.01
_ONE_PERCENT = 2.326  # standard errors


def watch(world: World, runs: int, share: float, days: float, shift: float = 0.0, seed: int = 6):
    """Canary queries until each run is called worse; NaN where it never is. Shape (2, runs).

    The second row is a two-proportion z-test at 1 % each minute, as people begin.

    Args:
        world: traffic that both versions share, minute by minute.
        runs: independent canaries, 4 queries a second each with its stable version.
        share: of the queries that the canary answers.
        days: of watching; a day of stable traffic comes before.
        shift: how much more the canary loses.
        seed: of everything.
    """
    rules = build([{"kind": "canary", "metrics": ["hit"], "alpha": ALPHA}])
    detection = Detection([], rules, DetectionOptions(lag_s=0.0, max_streams=8 * runs))
    keys = [
        StreamKey(f"run{run}", metric, dimension, version)
        for run in range(runs)
        for dimension, version in (("version", "stable"), ("version", "canary"))
        for metric in ("traffic", "hit")
    ]
    rows = np.array([detection.streams.row(key) for key in keys])
    detection.begin(MONDAY * 60.0)
    traffic = Traffic(world, np.full(runs, 4.0), seed)
    found, queries = np.full((2, runs), np.nan), np.zeros(runs)
    sums = np.zeros((runs, 2, 3))
    start = MONDAY + DAY
    for minute in range(MONDAY, start + int(days * DAY)):
        level = traffic.level(minute)
        cells = np.zeros((runs, 2, 2, 3))  # versions, metrics
        cells[:, 0] = traffic.draw(minute, level, 1 - share)[:, None]
        if minute >= start:
            cells[:, 1] = traffic.draw(minute, level + shift, share)[:, None]
            queries += cells[:, 1, 0, 0]
            sums += cells[:, :, 1]
            fresh = np.isnan(found[1]) & (_z(sums) > _ONE_PERCENT)
            found[1, fresh] = queries[fresh]
        cells[:, :, 0, 1:] = 0.0  # traffic loses nothing
        for run in _called_worse(detection, minute, rows, cells.reshape(-1, 3)):
            if np.isnan(found[0, run]):
                found[0, run] = queries[run]
        if shift and not np.isnan(found).any():
            break
    return found


def _z(sums: np.ndarray) -> np.ndarray:
    """How much worse the canary did than the stable version, in standard errors."""
    n, lost = np.maximum(sums[..., 0], 1.0), sums[..., 1]
    pooled = lost.sum(axis=1) / n.sum(axis=1)
    error = np.sqrt(np.maximum(pooled * (1.0 - pooled), 1e-9) * (1.0 / n).sum(axis=1))
    return (lost[:, 1] / n[:, 1] - lost[:, 0] / n[:, 0]) / error


def _called_worse(detection, minute, rows, cells) -> list[int]:
    detection.add_cells(np.full(len(rows), minute), rows, cells)
    (closed,) = detection.advance(minute + 1)
    return [int(finding.alert.stream.pipeline[3:]) for finding in closed.findings]


def wald(share: float, level: float, shift: float) -> float:
    """Canary queries that Wald's test needs on average for the same fall and error."""
    bad, pooled = level + shift, level + share * shift
    information = _kl(bad, pooled) + (1 - share) / share * _kl(level, pooled)
    return float(np.log(1 / ALPHA) / information)


def _kl(p: float, q: float) -> float:
    return p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
