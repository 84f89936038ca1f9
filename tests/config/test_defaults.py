"""A default stands once: in the settings, or in the core option that a setting is passed to."""

import ast
import importlib
import inspect
import pkgutil
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import ragmon
from ragmon.config import sections, settings
from ragmon.signals import SignalOptions


def written_defaults(source: str) -> dict[str, list[Any]]:
    """The defaults of fields that are written out rather than referred to, by field name."""
    written: dict[str, list[Any]] = {}
    for node in ast.walk(ast.parse(textwrap.dedent(source))):
        if isinstance(node, ast.AnnAssign) and node.value and isinstance(node.target, ast.Name):
            named = any(isinstance(part, ast.Name | ast.Call) for part in ast.walk(node.value))
            if not named:
                value = eval(ast.unparse(node.value))
                written.setdefault(node.target.id, []).append(value)
    return written


WRITTEN = written_defaults(Path(sections.__file__).read_text(encoding="utf-8")) | written_defaults(
    Path(settings.__file__).read_text(encoding="utf-8")
)


def defaults_of(target: Any) -> dict[str, Any]:
    """The defaults of a struct, a model or a function, by name and by position."""
    if isinstance(target, type) and issubclass(target, msgspec.Struct):
        return {
            field.name: field.default_factory()
            if field.default_factory is not msgspec.NODEFAULT
            else field.default
            for field in msgspec.structs.fields(target)
        }
    if hasattr(target, "model_fields"):
        return {name: field.get_default() for name, field in target.model_fields.items()}
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):
        return {}
    return {parameter.name: parameter.default for parameter in parameters}


def called(module: Any, call: ast.Call) -> Any:
    """The function or class of ragmon that is called; None for any other."""
    target = module
    for name in ast.unparse(call.func).split("."):
        target = getattr(target, name, None)
    ours = (getattr(target, "__module__", None) or "").startswith("ragmon.")
    return target if ours and (inspect.isclass(target) or inspect.isroutine(target)) else None


def doubled(module: Any) -> Iterator[str]:
    """Arguments that a setting is passed to and whose default repeats the one of the setting.

    Amounts only: a mode such as ``keep`` is a name, and cannot drift.
    """
    for call in ast.walk(ast.parse(inspect.getsource(module))):
        if not isinstance(call, ast.Call) or (target := called(module, call)) is None:
            continue
        defaults = defaults_of(target)
        written = written_defaults(inspect.getsource(target))
        positional = zip(defaults, call.args, strict=False)
        named = ((keyword.arg, keyword.value) for keyword in call.keywords)
        for name, value in [*positional, *named]:
            default = defaults.get(name)
            if not isinstance(default, int | float | tuple | dict) or default in ((), {}):
                continue
            if isinstance(target, type) and name not in written:
                continue  # it refers to the settings
            for part in ast.walk(value):
                if isinstance(part, ast.Attribute) and default in WRITTEN.get(part.attr, ()):
                    yield f"{module.__name__}: {target.__name__}.{name} = {default!r}"


MODULES = [
    importlib.import_module(info.name)
    for info in pkgutil.walk_packages(ragmon.__path__, "ragmon.")
    if info.name.startswith(("ragmon.daemon.", "ragmon.cli.", "ragmon.backtest."))
    and not info.name.endswith(("__main__", "grpc_server"))
]


def test_no_default_stands_twice():
    assert len(MODULES) > 50
    assert [line for module in MODULES for line in doubled(module)] == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("slow_ms: float = 5_000.0", {"slow_ms": [5_000.0]}),
        ("records: float = 7 * 86_400.0", {"records": [604_800.0]}),
        ("slow_ms: float = _SIGNALS.slow_ms", {}),
        ("judge: JudgeSettings = JudgeSettings()", {}),
    ],
)
def test_a_default_that_is_written_out_is_seen(source, expected):
    assert written_defaults(source) == expected


def test_a_default_that_stands_twice_is_seen(monkeypatch):
    from ragmon.daemon import build

    monkeypatch.setitem(WRITTEN, "slow_ms", [SignalOptions().slow_ms])
    assert list(doubled(build)) == ["ragmon.daemon.build: SignalOptions.slow_ms = 5000.0"]
