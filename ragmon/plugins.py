"""Plug-ins: a file or package in a folder, named as its ``kind``, imported only when configured.

Stores, sources, sinks, judges and detectors are all found here: a plug-in is a module of the
folder that exports ``Options`` and ``build``, so that adding one is adding a file.
"""

import difflib
import importlib
import pkgutil
from collections.abc import Collection, Iterator, Mapping
from types import ModuleType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ragmon.errors import SettingsError

Model = TypeVar("Model", bound=BaseModel)


def resolve(package: str, setting: str, values: Mapping[str, Any]) -> tuple[Any, BaseModel]:
    """The plug-in that a free-form setting configures.

    Args:
        package: the folder, for example ``ragmon.sinks``.
        setting: dotted name of the setting, for messages: ``sinks.0``.
        values: ``kind``, and the options of that kind.

    Returns:
        The module, and its checked ``Options``; nothing is built yet.

    Raises:
        SettingsError: no such kind, or options it does not have; the nearest name is given.
    """
    module = find(package, str(values.get("kind") or ""), setting)
    options = {name: value for name, value in values.items() if name != "kind"}
    return module, check_options(module.Options, setting, options)


def find(package: str, kind: str, setting: str) -> Any:
    """The module of a kind.

    Raises:
        SettingsError: there is no such kind; the nearest is named.
    """
    if kind in _names(package) and _is_plugin(package, kind):
        return importlib.import_module(f"{package}.{kind}")
    known = kinds(package)
    problem = f"unknown kind {kind!r}" if kind else "`kind` is missing"
    raise SettingsError(f"{setting}: {problem}; {remedy(kind, known, cutoff=0.4)}")


def kinds(package: str) -> list[str]:
    """The kinds that a folder holds, sorted.

    All of its modules are imported, so this is for error messages, checks and tests.
    """
    return [name for name in _names(package) if _is_plugin(package, name)]


def check_options(model: type[Model], setting: str, values: Mapping[str, Any]) -> Model:
    """Options from a free-form setting.

    Raises:
        SettingsError: one line for every option that cannot be used. No value is shown, since it
            may be a secret.
    """
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise SettingsError("; ".join(_problems(setting, error, model.model_fields))) from None


def remedy(name: str, known: Collection[str], *, cutoff: float = 0.5) -> str:
    """The second half of a message about an unknown name: the nearest known one, or all."""
    near = nearest(name, known, cutoff=cutoff)
    return f"did you mean `{near}`?" if near else f"known are {', '.join(known)}"


def nearest(name: str, known: Collection[str], *, cutoff: float = 0.5) -> str:
    """The known name most like a mistyped one; empty when none is ``cutoff`` alike, in [0, 1]."""
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=cutoff)), "")


def _names(package: str) -> list[str]:
    folder = importlib.import_module(package)
    return sorted(info.name for info in pkgutil.iter_modules(folder.__path__))


def _is_plugin(package: str, name: str) -> bool:
    """True also for a module whose optional dependency is missing: only plug-ins have one."""
    try:
        module: ModuleType = importlib.import_module(f"{package}.{name}")
    except ImportError:
        return True
    return hasattr(module, "Options") and hasattr(module, "build")


def _problems(setting: str, error: ValidationError, known: Collection[str]) -> Iterator[str]:
    for problem in error.errors(include_url=False, include_input=False):
        *parents, name = map(str, problem["loc"]) if problem["loc"] else ("",)
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            message = "unknown option" + ("" if parents else f"; {remedy(name, known)}")
        yield f"{'.'.join([setting, *parents, name]).rstrip('.')}: {message}"
