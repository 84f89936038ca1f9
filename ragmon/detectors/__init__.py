"""Detectors: is a stream of losses worse than it should be? One file a kind.

A kind exports

- ``Options``: its settings, under ``detectors.rules`` as ``{kind: <file>, …}``;
- ``build(options)``: what it remembers, as arrays over all streams at once, with ``grow``,
  ``clear``, ``dump`` and ``load``;
- ``step(state, tick) -> list[Finding]``: one minute further.

``ragmon.plugins`` finds the kinds, ``detection`` drives them. A *loss* is never negative and up is
bad; a *stream* is the losses of one metric in one pipeline, whole or one slice of it. Everything
is fed by minutes of (n, Σ loss, Σ loss²), so that live traffic, a restart and a replay agree.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from msgspec import Struct

from ragmon.detectors.days import EVERYWHERE, Calendar

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ragmon.detectors.arrays import Floats, Ints
    from ragmon.detectors.baselines import Baseline
    from ragmon.detectors.latencies import LatencyEdges
    from ragmon.detectors.minutes import MinuteLog
    from ragmon.detectors.references import References
    from ragmon.detectors.streams import StreamTable

Severity = Literal["info", "warning", "critical"]
Status = Literal["bad", "unknown"]

MINUTE_S = 60.0


class StreamKey(NamedTuple):
    """One stream; ``dimension`` is empty for a pipeline as a whole."""

    pipeline: str
    metric: str
    dimension: str = ""
    value: str = ""


class AlertKey(NamedTuple):
    """Identity of an alert: its subject without its numbers."""

    kind: str
    stream: StreamKey
    rule: str = ""  # tells two rules of one kind apart


class Measured(Struct, frozen=True):
    """A mean loss with its 95 % interval."""

    mean: float
    lower: float
    upper: float
    n: float


class Finding(Struct, frozen=True, kw_only=True):
    """Verdict of a detector on a stream in one minute; a stream without one is fine."""

    alert: AlertKey
    status: Status  # unknown: nothing was seen, which neither fires nor resolves
    severity: Severity = "warning"
    observed: Measured | None = None  # since the change, or over the rule's window
    reference: Measured | None = None
    reference_text: str = ""  # what the reference is, in words
    tolerated: float = 0.0  # loss from which a minute counts against the stream
    changed_at: float | None = None  # unix seconds, estimated
    window_s: float | None = None
    evidence: float | None = None  # likelihood ratio against "nothing changed"
    threshold: float | None = None  # of the evidence, or the limit of a plain rule
    guarantee: str = ""
    typical_ms: tuple[float, float] | None = None  # typical latency before and since a drift


class Tick(Struct, frozen=True):
    """One closed minute of every stream."""

    minute: int  # unix minutes
    log: "MinuteLog"
    streams: "StreamTable"
    cells: "Floats"  # (streams, 3): n, Σ loss, Σ loss² of what became known in this minute
    references: "References"
    renewed: bool  # the references were renewed; each ten minutes
    settled: int  # streams that existed then; those beyond wait for the next renewal
    allowed: float  # false alarms in thirty days, of one kind and all its streams together
    total: float  # the same, of everything together
    baseline: "Baseline | None" = None
    calendar: Calendar = EVERYWHERE
    z: float = 2.5  # standard errors of an expected level that are tolerated
    delta: float = 0.01  # a smaller change is none
    latencies: "LatencyEdges | None" = None

    @property
    def now(self) -> float:
        """The end of the minute, unix seconds."""
        return (self.minute + 1) * MINUTE_S


@runtime_checkable
class DetectorState(Protocol):
    """Memory of one rule between two minutes."""

    def grow(self, streams: int) -> None:
        """Make room for that many streams."""
        ...

    def clear(self, streams: "Sequence[int] | Ints") -> None:
        """Forget some streams, by row."""
        ...

    def dump(self) -> bytes:
        """Everything, for ``load`` in another process."""
        ...

    def load(self, data: bytes) -> None:
        """Continue where ``dump`` was taken."""
        ...


@runtime_checkable
class Resumable(Protocol):
    """State that must know when the monitor itself was away."""

    def resume(self) -> None:
        """Take the monitor's own absence for no silence."""
        ...


@runtime_checkable
class Rescalable(Protocol):
    """State that outlives a change of the thresholds that latencies are counted by."""

    def rescale(self, streams: "Sequence[int] | Ints") -> None:
        """Go on with these streams, whose losses mean something else from now on."""
        ...


OptionsT = TypeVar("OptionsT", bound="BaseModel")
StateT = TypeVar("StateT", bound=DetectorState)


class DetectorKind(Protocol[OptionsT, StateT]):
    """The module of a kind."""

    KIND: str

    @property
    def Options(self) -> type[OptionsT]:  # noqa: N802 - the name of a class
        """Settings of a rule of this kind."""
        ...

    def build(self, options: OptionsT) -> StateT:
        """State of a rule that has seen nothing."""
        ...

    def step(self, state: StateT, tick: Tick) -> list[Finding]:
        """Judge one minute."""
        ...


@runtime_checkable
class NamesRules(Protocol):
    """A kind of which several rules may watch the same metric."""

    def rule_name(self, options: "BaseModel", /) -> str:
        """Name of a rule among those of its kind and metric."""
        ...
