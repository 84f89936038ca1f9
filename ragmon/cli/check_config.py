"""Check the configuration and print every setting with its value, origin and meaning.

Where there is a store, the series that the settings of `metrics` come to for its traffic follow, by
metric, and how many of them metrics.max_series leaves out; and the streams that detectors would
watch, and how many of them detectors.max_streams leaves out.
"""

import argparse
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, get_args
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from rich import box
from rich.table import Table

from ragmon.cli import flags, series_table
from ragmon.cli.console import say_json
from ragmon.cli.rich_output import standard_output
from ragmon.clock import SystemClock
from ragmon.config import Loaded
from ragmon.config.settings import Settings
from ragmon.config.units import size_text
from ragmon.daemon.startable import check_startable
from ragmon.durations import duration_text
from ragmon.judges.llm.options import Options as LlmOptions
from ragmon.judges.local.options import Options as LocalOptions

_OPTIONAL = (LlmOptions, LocalOptions)
"""Sections that are off unless they are written."""


class SettingRow(NamedTuple):
    """One setting, as people read it."""

    setting: str
    value: str
    origin: str  # file, variable, flag or default
    meaning: str


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    flags.arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def run(args: argparse.Namespace) -> int:
    """Check everything that `serve` would refuse, and print the rest."""
    loaded = flags.settings(args)
    settings = loaded.settings
    check_startable(settings, SystemClock())
    rows = setting_rows(loaded)
    if args.json:
        listed = [row._asdict() for row in rows]
        renamed = [{"from" if key == "origin" else key: row[key] for key in row} for row in listed]
        say_json({"settings": renamed, **series_table.as_json(settings)})
        return 0
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("setting", no_wrap=True)
    for name in ("value", "from", "meaning"):
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*row)
    standard_output(markup=False).print(table)
    series_table.show(settings)
    return 0


def setting_rows(loaded: Loaded) -> list[SettingRow]:
    """Every effective setting; secrets are hidden."""
    return [
        SettingRow(key, value, _origin(loaded.origins, key), text)
        for key, value, text in _rows(loaded.settings, "")
    ]


def _origin(origins: Mapping[str, str], key: str) -> str:
    return next((where for name, where in origins.items() if _covers(name, key)), "default")


def _rows(model: BaseModel, prefix: str) -> Iterator[tuple[str, str, str]]:
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from _rows(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value_text(field, value), _one_line(field.description)
            for kind in _OPTIONAL if value is None else ():
                if kind in get_args(field.annotation):
                    yield from _defaults(kind, f"{prefix}{name}.")


def _covers(name: str, key: str) -> bool:
    return name == key or name.startswith(key + ".")


def value_text(field: FieldInfo, value: Any) -> str:
    """The value of a setting as YAML writes it, with its unit."""
    parsers = repr(field.metadata) + repr(field.annotation)
    if "function seconds " in parsers and value is not None:
        return _durations(value)
    if "function size " in parsers and isinstance(value, int):
        return size_text(value)
    return _shown(value)


def _durations(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {duration_text(each)}" for name, each in value.items())
    durations = value if isinstance(value, tuple) else (value,)
    return ", ".join(map(duration_text, durations))


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(_shown(each) for each in value) or "none"
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        inner = (f"{name}={value_text(fields[name], v)}" for name, v in value if v is not None)
        return "{" + ", ".join(inner) + "}"
    if type(value) is dict:  # others hide what they hold
        return "{" + ", ".join(f"{name}: {_shown(each)}" for name, each in value.items()) + "}"
    if isinstance(value, SecretStr):
        return "(hidden)"
    if value is None or isinstance(value, bool):
        return "none" if value is None else str(value).lower()
    whole = isinstance(value, float) and value == int(value)
    return _without_credentials(str(int(value) if whole else value))


def _without_credentials(text: str) -> str:
    """A text; where it is a URL, without user, password and what follows its path."""
    try:
        url = urlsplit(text)
    except ValueError:  # no URL
        return text
    _, at, host = url.netloc.rpartition("@")
    if at:
        text = text.replace(url.netloc, f"(hidden)@{host}", 1)
    for begins, secret in (("?", url.query), ("#", url.fragment)):
        if url.netloc and secret:
            text = text.replace(f"{begins}{secret}", f"{begins}(hidden)", 1)
    return text


def reference() -> list[tuple[str, str, str]]:
    """Every setting with its default and meaning, for the reference."""
    return list(_rows(Settings(), ""))


def _defaults(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str]]:
    for name, field in model.model_fields.items():
        value = (
            "required" if field.is_required() else value_text(field, field.get_default()) or "none"
        )
        yield prefix + name, "none" if value == "{}" else value, _one_line(field.description)


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())
