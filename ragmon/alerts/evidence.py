"""Evidence of an alert: where the change sits, which stage fails, in words and with remedies."""

import numpy as np
from msgspec.structs import replace

from ragmon.alerts import Evidence, ModeShift, SliceShare
from ragmon.alerts.remedies import remedy_of, runbook_of
from ragmon.alerts.sentences import detail, sentence
from ragmon.alerts.suspects import Cell, probabilities
from ragmon.detectors import MINUTE_S, Finding, StreamKey
from ragmon.detectors.arrays import Floats
from ragmon.detectors.detection import Detection
from ragmon.detectors.losses import MODES

MOST_SLICES = 5
_LEAST_SHARE = 0.1
_HOUR_S = 3_600.0
_LATENCIES = ("latency_p50", "latency")  # in the order of their thresholds


def explain(finding: Finding, detection: Detection, now: float) -> Evidence:
    """The evidence of a finding, from the minutes that the detectors saw."""
    since = _since(finding, now)
    last = detection.log.frontier
    cells = detection.log.span(min(int(since // 60), last - 1), last)
    slices, excess = slice_shares(finding, detection, cells)
    usual_ms = _usual_ms(finding, detection, last)
    return Evidence(
        sentence=sentence(finding, now, usual_ms),
        detail=detail(finding, usual_ms),
        excess=excess,
        slices=slices,
        modes=mode_shifts(finding.alert.stream.pipeline, detection, cells),
        remedies=remedy_of(finding.alert).tries,
        runbook=runbook_of(finding.alert),
    )


def slice_shares(
    finding: Finding, detection: Detection, cells: Floats
) -> tuple[tuple[SliceShare, ...], float | None]:
    """The slices that drive the change, and how many losses there are beyond what was expected.

    A slice's share is its own excess over its own past, of the excess of the whole. Slices of
    different dimensions overlap, so shares need not add up.

    Args:
        finding: of a whole pipeline; a slice has no slices.
        detection: the streams and their references.
        cells: (streams, 3) since the change.
    """
    stream, references = finding.alert.stream, detection.references
    row = detection.streams.rows.get(stream)
    if row is None or finding.alert.kind == "no_data":
        return (), None
    expected = finding.reference.mean if finding.reference else float(references.mean[row])
    excess = float(cells[row, 1] - cells[row, 0] * expected)
    if stream.dimension or excess <= 0.0:
        return (), max(excess, 0.0)
    shares, parts = [], []
    for key, number in detection.streams.rows.items():
        n = float(cells[number, 0])
        if key[:2] != stream[:2] or not key.dimension or n <= 0.0:
            continue
        past = float(references.mean[number]) if references.ready[number] else expected
        share = (float(cells[number, 1]) - n * past) / excess
        mean = float(cells[number, 1]) / n
        if share >= _LEAST_SHARE:
            shares.append(SliceShare(key.dimension, key.value, n, mean, past, share))
            parts.append(Cell(n, float(cells[number, 1]), past))
    whole = Cell(float(cells[row, 0]), float(cells[row, 1]), expected)
    blamed = zip(shares, probabilities(whole, parts), strict=True)
    shares = [replace(part, probability=probability) for part, probability in blamed]
    shares.sort(key=lambda part: (-part.share, part.dimension, part.value))
    return tuple(shares[:MOST_SLICES]), excess


def mode_shifts(pipeline: str, detection: Detection, cells: Floats) -> tuple[ModeShift, ...]:
    """Failure modes before and since, the one that grew most first."""
    shifts = []
    for metric in MODES:
        row = detection.streams.rows.get(StreamKey(pipeline, metric))
        if row is None or not detection.references.ready[row] or cells[row, 0] <= 0.0:
            continue
        since = float(cells[row, 1] / cells[row, 0])
        before = float(detection.references.mean[row])
        shifts.append(ModeShift(metric.removeprefix("mode_"), before, since))
    return tuple(sorted(shifts, key=lambda shift: shift.before - shift.since))


def _since(finding: Finding, now: float) -> float:
    if finding.changed_at is not None:
        return finding.changed_at
    return now - (finding.window_s or _HOUR_S) + np.finfo(float).eps * MINUTE_S


def _usual_ms(finding: Finding, detection: Detection, minute: int) -> float | None:
    """The latency beyond which queries count as slow here; None for any other metric."""
    stream = finding.alert.stream
    if stream.metric not in _LATENCIES:
        return None
    usual = detection.latencies.thresholds_ms([stream.pipeline], np.array([0]), np.array([minute]))
    edge = float(usual[0, _LATENCIES.index(stream.metric)])
    return None if np.isnan(edge) else edge
