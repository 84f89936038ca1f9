"""The part of the chart's values.schema.json about `config`: made from ragmon's own settings.

Whatever ragmon would refuse at its start as an unknown key, a wrong type or a number out of bounds,
`helm install` and `helm upgrade` refuse before; what takes more than one key to judge is left to
ragmon. Only `tests/docs/test_reference.py` writes the file, by `make golden`.
"""

import importlib
import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from ragmon.config import Settings
from ragmon.config.days import holiday_entries
from ragmon.config.sections import SinkSettings
from ragmon.config.units import listed, moment, seconds, size, time_of_day
from ragmon.durations import UNITS
from ragmon.plugins import kinds

PREFIX = "config"
_AMOUNT = r"\s*[0-9]+(\.[0-9]+)?\s*"
_UNITS = "|".join(sorted(UNITS, key=len, reverse=True))
_TEXT = {"type": ["string", "number"]}
# What each of these also takes, besides what it makes of it.
_WRITTEN: Mapping[Any, JsonSchemaValue] = {
    seconds: {"type": "string", "pattern": rf"^{_AMOUNT}({_UNITS})?\s*$"},
    size: {"type": "string", "pattern": rf"^{_AMOUNT}([Bb]|[KkMmGgTt][Ii]?[Bb])?\s*$"},
    listed: _TEXT,
    moment: {"type": "string"},
    time_of_day: {"type": "integer"},
    holiday_entries: {},
}
_GENERATED = re.compile(r'^    "config(?:\.[^"]*)?": \{"[^$].*\n', re.MULTILINE)
_DEFINITIONS = '  "definitions": {\n'
_OPTIONS = "Options"  # of a judge, which is a section and no entry of a list
_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_DROPPED = ("title", "description", "default", "examples", "format", "writeOnly")
# Sections whose keys are those of a plug-in of the kind that they name.
_PLUGINS = {"sinks": "ragmon.sinks", "sources": "ragmon.sources"}


class _Schema(GenerateJsonSchema):
    """Schema of what may be written, before it is read."""

    def function_before_schema(
        self, schema: core_schema.BeforeValidatorFunctionSchema
    ) -> JsonSchemaValue:
        inner = super().function_before_schema(schema)
        written = _WRITTEN.get(schema["function"]["function"])
        return inner if written is None else {"anyOf": [inner, written]}


def config_definitions() -> dict[str, JsonSchemaValue]:
    """Definitions of draft 7 by name; that of `config` is the first."""
    definitions = _definitions(Settings, PREFIX)
    root = definitions[PREFIX]
    for name in definitions:
        if name.endswith(_OPTIONS):  # the rest may come from RAGMON_JUDGE__LLM__BASE_URL
            definitions[name].pop("required", None)
    for name, package in _PLUGINS.items():
        root["properties"][name] = _plugin_list(name, package, definitions)
    return {name: root if name == PREFIX else definitions[name] for name in sorted(definitions)}


def _definitions(model: type[BaseModel], name: str) -> dict[str, JsonSchemaValue]:
    """A model and those that it holds, with names that no other has."""
    schema = model.model_json_schema(schema_generator=_Schema, mode="validation")
    inner = schema.pop("$defs", {})
    named = {name: schema} | {f"{name}.{key}": value for key, value in inner.items()}
    return {key: _cleaned(value, name) for key, value in named.items()}


def _cleaned(part: Any, name: str) -> Any:
    """A part without what only readers need, its references led to the definitions here."""
    if isinstance(part, list):
        return [_cleaned(item, name) for item in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        inner = part["$ref"].removeprefix("#/$defs/")
        return {"$ref": f"#/definitions/{name}.{inner}"}
    kept = {}
    for key, value in part.items():
        if key == "properties":
            kept[key] = {inner: _cleaned(text, name) for inner, text in value.items()}
        elif key not in _DROPPED:
            kept[key] = _cleaned(value, name)
    return _bounded(kept)


def _bounded(part: dict[str, Any]) -> dict[str, Any]:
    """A choice of forms whose bounds stand at its numbers: a text is judged by ragmon."""
    bounds = {_BOUNDS[key]: part.pop(key) for key in _BOUNDS if key in part}
    for form in part.get("anyOf", ()) if bounds else ():
        if form.get("type") in ("number", "integer"):
            form.update(bounds)
        elif "anyOf" in form:
            form["anyOf"] = _bounded({"anyOf": form["anyOf"], **_unbounded(bounds)})["anyOf"]
    return part


def _unbounded(bounds: Mapping[str, Any]) -> dict[str, Any]:
    names = {written: name for name, written in _BOUNDS.items()}
    return {names[written]: value for written, value in bounds.items()}


def _plugin_list(
    name: str, package: str, definitions: dict[str, JsonSchemaValue]
) -> JsonSchemaValue:
    """A list of plug-ins: the options that each may have depend on its kind."""
    common = {"kind": {"type": "string"}}
    if name == "sinks":
        sinks = definitions.pop(f"{PREFIX}.{SinkSettings.__name__}")
        common = {key: value for key, value in sinks["properties"].items() if key != "options"}
    choices = []
    known = kinds(package)
    for kind in known:
        label = f"{PREFIX}.{name}.{kind}"
        made = _definitions(importlib.import_module(f"{package}.{kind}").Options, label)
        options = made[label]
        options["properties"] = common | options.get("properties", {})
        definitions.update(made)
        # A kind's own error is told once, not as many times as there are kinds.
        choices.append(
            {
                "if": {"properties": {"kind": {"const": kind}}},
                "then": {"$ref": f"#/definitions/{label}"},
            }
        )
    kind_schema = {"type": "object", "required": ["kind"], "properties": {"kind": {"enum": known}}}
    return {"type": "array", "items": {"allOf": [kind_schema, *choices]}}


def with_config(text: str) -> str:
    """The chart's schema with the definitions of these settings, a line each."""
    head, _, rest = text.partition(_DEFINITIONS)
    lines = [
        f"    {json.dumps(name)}: {json.dumps(definition, sort_keys=True)},\n"
        for name, definition in config_definitions().items()
    ]
    return head + _DEFINITIONS + "".join(lines) + _GENERATED.sub("", rest)
