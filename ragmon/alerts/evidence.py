"""Evidence of an alert: where the change sits, which stage fails, in words and with remedies."""

import numpy as np
from msgspec.structs import replace

from ragmon.alerts import Evidence, ModeShift, SliceShare
from ragmon.alerts.remedies import remedy_of, runbook_of
from ragmon.alerts.sentences import detail, sentence
from ragmon.alerts.suspects import SURE, Cell, overlaps, probabilities
from ragmon.detectors import MINUTE_S, Finding, StreamKey
from ragmon.detectors.arrays import Floats
from ragmon.detectors.detection import Detection
from ragmon.detectors.losses import MODES

MOST_SLICES = 5
_LEAST_SHARE = 0.1
_HOUR_S = 3_600.0
_NEW_MINUTES = 7 * 1_440  # for so long a slice is judged by the level of its pipeline
_TOGETHER_MINUTES = 60  # between the first records of a pipeline and those of its slices
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
    different dimensions overlap, so shares need not add up. A change of a slice is driven by
    itself, unless most of it lies within a slice of another dimension that explains the whole.

    Args:
        finding: of a pipeline or a slice.
        detection: the streams and their references.
        cells: (streams, 3) since the change.
    """
    stream, references = finding.alert.stream, detection.references
    row = detection.streams.rows.get(stream)
    if row is None or finding.alert.kind == "no_data":
        return (), None
    expected = finding.reference.mean if finding.reference else float(references.mean[row])
    cell = Cell(float(cells[row, 0]), float(cells[row, 1]), expected)
    if cell.excess <= 0.0:
        return (), 0.0
    if not stream.dimension:
        return tuple(_drivers(stream, cell, detection, cells)[:MOST_SLICES]), cell.excess
    if finding.alert.kind == "canary":
        return (), cell.excess  # it was compared with another version alone
    return _driver_elsewhere(stream, cell, detection, cells), cell.excess


def _drivers(
    stream: StreamKey, whole: Cell, detection: Detection, cells: Floats
) -> list[SliceShare]:
    """The slices of a pipeline that drive a change of one metric, the largest part first."""
    references, begun = detection.references, detection.streams.rows[stream]
    shares, parts = [], []
    for key, number in detection.streams.rows.items():
        n = float(cells[number, 0])
        if key[:2] != stream[:2] or not key.dimension or n <= 0.0:
            continue
        own = references.ready[number] and not _is_new(detection, number, begun)
        past = float(references.mean[number]) if own else whole.expected
        part = Cell(n, float(cells[number, 1]), past)
        share = part.excess / whole.excess
        if share >= _LEAST_SHARE:
            shares.append(SliceShare(key.dimension, key.value, n, part.rate, past, share))
            parts.append(part)
    blamed = zip(shares, probabilities(whole, parts), strict=True)
    shares = [replace(part, probability=probability) for part, probability in blamed]
    return sorted(shares, key=lambda part: (-part.share, part.dimension, part.value))


def _driver_elsewhere(
    stream: StreamKey, part: Cell, detection: Detection, cells: Floats
) -> tuple[SliceShare, ...]:
    """The slice of another dimension that explains what one slice has lost; () without one."""
    everything = StreamKey(stream.pipeline, stream.metric)
    row = detection.streams.rows.get(everything)
    if row is None or not detection.references.ready[row]:
        return ()
    expected = float(detection.references.mean[row])
    whole = Cell(float(cells[row, 0]), float(cells[row, 1]), expected)
    if whole.excess <= 0.0:
        return ()
    others = [
        share
        for share in _drivers(everything, whole, detection, cells)
        if share.dimension != stream.dimension
    ]
    best = max(others, key=lambda share: share.probability, default=None)
    if best is None or best.probability < SURE:
        return ()
    culprit = Cell(best.n, best.n * best.mean, best.expected)
    return (best,) if overlaps(whole, culprit, part) else ()


def _is_new(detection: Detection, part: int, whole: int) -> bool:
    """True for a slice that began lately, and after its pipeline did.

    Its own past may be what is wrong: a bad release would be at its usual level within hours.
    """
    began, before = detection.streams.first_minute[[part, whole]].tolist()
    since = max(int(before), detection.log.frontier - _NEW_MINUTES)
    return int(began) > since + _TOGETHER_MINUTES


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
