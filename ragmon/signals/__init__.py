"""Signals: what one query says about quality, one file each.

A signal file exports

- ``NAME``, ``KIND``, and ``HELP``, which becomes the metric's help;
- ``observe(record, known, options) -> float | None``, its meaning for one record and what was
  learned of that record later; None is unknown;
- ``observe_batch(facts, options) -> array`` where the hot path needs it: the same over the
  columns of a whole batch, NaN for None. A property test holds both forms equal.

``METRIC`` names the Prometheus gauge where it is not ``NAME`` with ``_ratio`` (None: no gauge).
A family of series (hit ratio at each k, by each evidence) also exports
``variants(options) -> tuple of label dicts``; ``observe`` then returns a tuple with one value a
variant, and ``observe_batch`` one column a variant. Adding a signal is adding a file:
``catalogue`` finds it.
"""

from typing import Literal

from msgspec import Struct

Kind = Literal["proportion", "fraction", "quantity", "amount"]
"""proportion: 0 or 1 each; fraction: in [0, 1]; quantity: any number, exported as a mean; amount:
a quantity that is never below zero."""

MEANS: frozenset[Kind] = frozenset({"quantity", "amount"})
"""The kinds that are no ratios."""

EVIDENCE = ("label", "citation", "score")


class CustomJudge(Struct, frozen=True):
    """A judge of the operator's own, ``judge.custom``."""

    name: str
    is_sampled: bool  # asked about the answers drawn for the language model, not about all


class SignalOptions(Struct, frozen=True, kw_only=True):
    """The settings that signals depend on."""

    ks: tuple[int, ...] = (1, 3, 5, 10)
    slow_ms: float = 5_000.0
    relevant_score: float | None = None
    low_score: float | None = None
    unfaithful_below: float = 0.5
    diagnosis_k: int = 3  # a first relevant chunk below this rank is a ranking failure
    custom: tuple[CustomJudge, ...] = ()


class Column(Struct, frozen=True):
    """One column of observations: a signal, or one variant of a family."""

    name: str
    labels: tuple[tuple[str, str], ...]
    kind: Kind
    help: str
    metric: str | None  # the gauge's name without ``ragmon_``

    @property
    def key(self) -> str:
        """The column's name in stored blocks: ``hit{k=3,evidence=label}``."""
        inner = ",".join(f"{name}={value}" for name, value in self.labels)
        return f"{self.name}{{{inner}}}" if inner else self.name
