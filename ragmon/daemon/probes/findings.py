"""Golden runs against golden runs, as findings that become alerts like any other.

The questions are the same in each run, so what falls here fell in the system: a change in what
users ask cannot move it.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from ragmon.daemon.probes.state import Planned, ProbeState
from ragmon.detectors import AlertKey, Finding, Measured, StreamKey
from ragmon.detectors.core import MONTH_MINUTES
from ragmon.detectors.episodes import measured
from ragmon.evaluate.run.probe import Compared

RULE = "golden"

_SHARE = 0.1  # probes may add this much to the false alarms that are allowed
_METRICS = {"hit": "hit", "faithfulness": "grounding"}
"""Metrics of a run, by the name that alerts give them."""


class Allowance(Struct, frozen=True):
    """Rate of false alarms allowed to all probes together."""

    per_month: float  # false alarms in thirty days

    def level(self, planned: Planned, probes: int, metrics: int) -> float:
        """The p-value below which one comparison of one run is a finding."""
        runs = MONTH_MINUTES * 60.0 / planned.every_s
        return self.per_month / (runs * probes * metrics)


def allowance(false_alarms_per_month: float) -> Allowance:
    """Of the probes, by what is allowed of everything else."""
    return Allowance(_SHARE * false_alarms_per_month)


def findings(
    planned: Sequence[Planned], states: Mapping[str, ProbeState], allowed: Allowance
) -> list[Finding]:
    """Of each probe and metric the clearest fall, until a run is better."""
    made: list[Finding] = []
    for probe in planned:
        state = states[probe.job.probe]
        level = allowed.level(probe, len(planned), max(1, len(state.falls)))
        for base, name in _METRICS.items():
            worse = list(_worse(state, base, level))
            if worse:
                metric = min(worse, key=lambda metric: state.falls[metric].paired.p_value)
                stream = StreamKey(f"probe {probe.job.probe}", name)
                made.append(_finding(stream, state, metric, allowed))
    return made


def _worse(state: ProbeState, base: str, level: float) -> Iterator[str]:
    for metric, compared in state.falls.items():
        name = metric.replace("/", "@").partition("@")[0]
        if name == base and compared.paired.p_value <= level:
            yield metric


def _finding(stream: StreamKey, state: ProbeState, metric: str, allowed: Allowance) -> Finding:
    compared = state.falls[metric]
    return Finding(
        alert=AlertKey("regression", stream, RULE),
        status="bad",
        observed=_measured(compared, compared.after),
        reference=_measured(compared, compared.before),
        reference_text=_reference_text(state, metric, compared),
        tolerated=1.0 - compared.before / compared.cases,
        changed_at=state.worse_since[metric],
        guarantee=_guarantee(allowed),
    )


def _measured(compared: Compared, passed: int) -> Measured | None:
    failed = float(compared.cases - passed)
    return measured((float(compared.cases), failed, failed), binary=True)


def _guarantee(allowed: Allowance) -> str:
    return (
        f"if nothing changed, all probes together would raise {allowed.per_month:g} false alarms "
        "in 30 days on average at most"
    )


def _reference_text(state: ProbeState, metric: str, compared: Compared) -> str:
    """A p-value is no likelihood ratio, so it stands here and not as evidence."""
    assert state.reference is not None
    paired = compared.paired
    return (
        f"in golden run {state.reference.name} by {metric}, over the same questions: "
        f"{paired.worse} got worse and {paired.better} better, which chance alone does in "
        f"at most 1 of {1.0 / max(paired.p_value, 1e-9):,.0f} runs"
    )
