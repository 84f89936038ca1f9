"""Plug-ins: a file in a folder, named as its ``kind``, imported only when configured."""

import difflib
import importlib
import pkgutil
from types import ModuleType
from typing import Any

from ragmon.errors import SettingsError


def kinds(package: str) -> list[str]:
    """The kinds that a folder holds: its modules that export ``build``.

    All of them are imported, so this is for error messages and tests. A module whose optional
    dependency is missing counts: nothing else of a plug-in folder has one.
    """
    folder = importlib.import_module(package)
    names = (info.name for info in pkgutil.iter_modules(folder.__path__))
    return sorted(name for name in names if _is_plugin(package, name))


def find(package: str, kind: str, setting: str) -> Any:
    """The module of a kind, which exports ``Options`` and ``build``.

    Raises:
        SettingsError: there is no such kind; the nearest is named.
    """
    folder = importlib.import_module(package)
    if kind in {info.name for info in pkgutil.iter_modules(folder.__path__)}:
        module = importlib.import_module(f"{package}.{kind}")
        if hasattr(module, "build"):
            return module
    known = kinds(package)
    near = difflib.get_close_matches(kind, known, n=1, cutoff=0.4)
    hint = f"Did you mean {near[0]}?" if near else f"Use one of {', '.join(known)}"
    raise SettingsError(f"{setting}: unknown kind {kind!r}", hint=hint)


def _is_plugin(package: str, name: str) -> bool:
    try:
        module: ModuleType = importlib.import_module(f"{package}.{name}")
    except ImportError:
        return True
    return hasattr(module, "build")
