"""Finds the signal files and turns a batch of records into one matrix of observations."""

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon import signals
from ragmon.records import Amendments, QueryRecord
from ragmon.signals import Column, SignalOptions
from ragmon.signals.facts import Facts, extract

Observer = Callable[[Sequence[QueryRecord], Facts], NDArray[np.float64]]


class Catalogue(Struct, frozen=True):
    """The signals in force, as the columns they fill."""

    options: SignalOptions
    columns: tuple[Column, ...]
    observers: tuple[Observer, ...]

    def observe(
        self, records: Sequence[QueryRecord], known: Sequence[Amendments] | None = None
    ) -> NDArray[np.float64]:
        """Observations of shape (n, columns), float64; NaN where a record does not say."""
        facts = extract(records, self.options.relevant_score, known)
        return np.column_stack([observer(records, facts) for observer in self.observers])

    def index(self, name: str, **labels: str) -> int:
        """Position of one column.

        Raises:
            KeyError: no signal fills such a column.
        """
        wanted = (name, tuple(labels.items()))
        for position, column in enumerate(self.columns):
            if (column.name, column.labels) == wanted:
                return position
        raise KeyError(wanted)


def build(options: SignalOptions) -> Catalogue:
    """Every signal file of the package, in the order of its name."""
    columns: list[Column] = []
    observers: list[Observer] = []
    for module in modules():
        columns.extend(_columns(module, options))
        observers.append(_observer(module, options))
    return Catalogue(options, tuple(columns), tuple(observers))


def modules() -> list[ModuleType]:
    """The signal files: those that export ``NAME``."""
    names = sorted(info.name for info in pkgutil.iter_modules(signals.__path__))
    found = [importlib.import_module(f"{signals.__name__}.{name}") for name in names]
    return [module for module in found if hasattr(module, "NAME")]


def _columns(module: ModuleType, options: SignalOptions) -> list[Column]:
    variants: Sequence[dict[str, str]] = (
        module.variants(options) if hasattr(module, "variants") else ({},)
    )
    plain = module.NAME if module.KIND in signals.MEANS else f"{module.NAME}_ratio"
    metric: str | None = getattr(module, "METRIC", plain)
    return [
        Column(module.NAME, tuple(labels.items()), module.KIND, module.HELP, metric)
        for labels in variants
    ]


def _observer(module: ModuleType, options: SignalOptions) -> Observer:
    if hasattr(module, "observe_batch"):
        observe_batch: Callable[..., NDArray[np.float64]] = module.observe_batch
        return lambda _records, facts: observe_batch(facts, options)
    observe: Callable[[QueryRecord, Any], float | None] = module.observe

    def observe_each(records: Sequence[QueryRecord], _facts: Facts) -> NDArray[np.float64]:
        values = [observe(record, options) for record in records]
        return np.array([np.nan if value is None else value for value in values])

    return observe_each
