"""Plug-ins: a file in a folder, named as its ``kind``, imported only when configured."""

import difflib
import importlib
import pkgutil
from typing import Any

from ragmon.errors import SettingsError


def kinds(package: str) -> list[str]:
    """The kinds that a folder holds."""
    folder = importlib.import_module(package)
    names = (info.name for info in pkgutil.iter_modules(folder.__path__))
    return sorted(name for name in names if name not in _BUILT_IN and not name.startswith("_"))


def find(package: str, kind: str, setting: str) -> Any:
    """The module of a kind, which exports ``Options`` and ``build``.

    Raises:
        SettingsError: there is no such kind; the nearest is named.
    """
    known = kinds(package)
    if kind not in known:
        near = difflib.get_close_matches(kind, known, n=1, cutoff=0.4)
        hint = f"Did you mean {near[0]}?" if near else f"Use one of {', '.join(known)}"
        raise SettingsError(f"{setting}: unknown kind {kind!r}", hint=hint)
    return importlib.import_module(f"{package}.{kind}")


_BUILT_IN = ("http", "otlp")  # always there, not configured under sources
