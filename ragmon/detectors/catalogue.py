"""Finds the kinds of detectors: the files of this folder that export ``KIND``."""

import importlib
import pkgutil
from types import ModuleType

from ragmon import detectors


def modules() -> dict[str, ModuleType]:
    """The kinds by name, in the order of their names."""
    names = sorted(info.name for info in pkgutil.iter_modules(detectors.__path__))
    found = [importlib.import_module(f"{detectors.__name__}.{name}") for name in names]
    return {module.KIND: module for module in found if hasattr(module, "KIND")}
