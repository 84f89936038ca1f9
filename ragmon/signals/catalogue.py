"""Catalogue of the signal files: a batch of records in, one matrix of observations out."""

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from types import ModuleType

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon import signals
from ragmon.records import Amendments, QueryRecord
from ragmon.signals import Column, SignalOptions
from ragmon.signals.facts import Facts, extract

Floats = NDArray[np.float64]
Later = Sequence[Amendments] | None
"""Feedback, labels and verdicts of each record that came after it; None: none of any."""

Observer = Callable[[Sequence[QueryRecord], Later, Facts], Floats]
"""Observations of a batch: shape (n,), or (n, variants)."""

_NOTHING = Amendments()


class Catalogue(Struct, frozen=True):
    """The signals in force, as the columns they fill."""

    options: SignalOptions
    columns: tuple[Column, ...]
    observers: tuple[Observer, ...]

    def observe(self, records: Sequence[QueryRecord], known: Later = None) -> Floats:
        """Observations of shape (n, columns), float64; NaN where a record does not say."""
        facts = extract(records, self.options.relevant_score, known)
        return np.column_stack([observer(records, known, facts) for observer in self.observers])

    def index(self, name: str, **labels: str) -> int:
        """Position of one column.

        Raises:
            KeyError: no signal fills such a column.
        """
        key = (name, tuple(labels.items()))
        for position, column in enumerate(self.columns):
            if (column.name, column.labels) == key:
                return position
        raise KeyError(key)


def build(options: SignalOptions) -> Catalogue:
    """Every signal file of the package, in the order of its name."""
    columns: list[Column] = []
    observers: list[Observer] = []
    for module in modules():
        of_signal = _columns(module, options)
        if not of_signal:
            continue  # a family without members
        columns.extend(of_signal)
        is_batched = hasattr(module, "observe_batch")
        observers.append((by_batch if is_batched else by_record)(module, options))
    return Catalogue(options, tuple(columns), tuple(observers))


def modules() -> list[ModuleType]:
    """The signal files: those that export ``NAME``."""
    names = sorted(info.name for info in pkgutil.iter_modules(signals.__path__))
    imported = [importlib.import_module(f"{signals.__name__}.{name}") for name in names]
    return [module for module in imported if hasattr(module, "NAME")]


def by_record(module: ModuleType, options: SignalOptions) -> Observer:
    """The observer that calls a signal's ``observe`` for each record; shape (n, variants)."""
    width = len(_variants(module, options))

    def observe(records: Sequence[QueryRecord], known: Later, _facts: Facts) -> Floats:
        later = [_NOTHING] * len(records) if known is None else known
        values = [module.observe(*pair, options) for pair in zip(records, later, strict=True)]
        try:
            return np.array(values, dtype=np.float64).reshape(len(records), width)
        except (TypeError, ValueError) as error:
            form = "a number or None" if width == 1 else f"{width} numbers or None, one a variant"
            message = f"signal {module.NAME}: observe must return {form}: {error}"
            raise ValueError(message) from error

    return observe


def by_batch(module: ModuleType, options: SignalOptions) -> Observer:
    """The observer that calls a signal's ``observe_batch`` once."""
    observe_batch: Callable[[Facts, SignalOptions], Floats] = module.observe_batch
    return lambda _records, _known, facts: observe_batch(facts, options)


def _columns(module: ModuleType, options: SignalOptions) -> list[Column]:
    plain = module.NAME if module.KIND in signals.MEANS else f"{module.NAME}_ratio"
    metric: str | None = getattr(module, "METRIC", plain)
    return [
        Column(module.NAME, tuple(labels.items()), module.KIND, module.HELP, metric)
        for labels in _variants(module, options)
    ]


def _variants(module: ModuleType, options: SignalOptions) -> Sequence[dict[str, str]]:
    """The labels of each column; a signal that is no family has one without any."""
    return module.variants(options) if hasattr(module, "variants") else ({},)
