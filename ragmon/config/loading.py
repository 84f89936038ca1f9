"""Settings from the file, the environment and flags, with errors that name the key and a remedy."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

import yaml
from msgspec import Struct
from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from ragmon.config.settings import Settings
from ragmon.config.yaml_text import parse, where
from ragmon.environment import CLIENT_TOKEN
from ragmon.errors import SettingsError
from ragmon.plugins import nearest

DEFAULT_FILE = Path("ragmon.yaml")
_PREFIX = "RAGMON_"
_SEPARATOR = "__"
_SERVICE_LINK = re.compile(
    r"\ARAGMON_(\w+_)?(SERVICE_(HOST|PORT)(_\w+)?|PORT_[0-9]+_(TCP|UDP|SCTP)\w*)"
)


class Loaded(Struct, frozen=True):
    """Settings, and the origin of each key that is set: file, variable or flag."""

    settings: Settings
    origins: dict[str, str]


def load(
    file: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Loaded:
    """The effective settings.

    Args:
        file: a YAML file; None reads ``ragmon.yaml`` when it is there.
        flags: dotted keys and values from the command line.
        environment: variables to check for typos; None takes the process's own.

    Raises:
        SettingsError: an unknown key (the nearest valid one is named), a bad value, or a file
            that cannot be read.
    """
    environment = os.environ if environment is None else environment
    path = file if file is not None else (DEFAULT_FILE if DEFAULT_FILE.exists() else None)
    from_file = _read(path) if path is not None else {}
    origins: dict[str, str] = dict.fromkeys(_leaves(from_file), str(path))
    variables = _variables(environment)
    origins |= {key: name for key, (name, _) in variables.items()}
    origins |= {key: "--" + key.replace("_", "-") for key in flags or {}}
    unknown = [key for key in origins if not _is_known(key)]
    if unknown:
        raise SettingsError("; ".join(_unknown(key, origins[key]) for key in sorted(unknown)))
    from_flags = _nest(flags or {}, origins)
    from_environment = _nest({key: value for key, (_, value) in variables.items()}, origins)
    try:
        return Loaded(_layered(from_environment, from_file)(**from_flags), origins)
    except ValidationError as error:
        raise SettingsError(_explain(error, origins)) from None


def keys() -> list[str]:
    """Every setting as a dotted key."""
    return [key for key, _ in _fields(Settings, "")]


class _Layer(PydanticBaseSettingsSource):
    """One origin of settings, already read."""

    def __init__(self, settings: type[BaseSettings], values: dict[str, Any]) -> None:
        super().__init__(settings)
        self._values = values

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002
        return self._values.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        return self._values


def _layered(*lower: dict[str, Any]) -> type[Settings]:
    """Settings that take keys without a flag from these layers; the first has precedence."""

    class FromEverywhere(Settings):
        @classmethod
        def settings_customise_sources(  # type: ignore[override]  # called by keyword
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            **_: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return (init_settings, *(_Layer(settings_cls, values) for values in lower))

    return FromEverywhere


def _read(path: Path) -> dict[str, Any]:
    try:
        content = parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SettingsError(f"cannot read {path}: {reason}") from error
    except yaml.YAMLError as error:
        raise SettingsError(f"{path} is not YAML: {where(error)}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise SettingsError(f"{path} must hold keys and values, not {type(content).__name__}")
    return {str(key): value for key, value in content.items()}


def _parse(text: str, origin: str) -> Any:
    try:
        return parse(text)
    except yaml.YAMLError as error:
        raise SettingsError(f"{origin} is not YAML: {where(error)}") from None


def _nest(flat: Mapping[str, Any], origins: Mapping[str, str]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    texts = {key for key, kind in _fields(Settings, "") if _is_text(kind)}
    for key in sorted(flat):  # a section before its keys
        *parents, last = key.split(".")
        level = nested
        for depth, parent in enumerate(parents, 1):
            level = level.setdefault(parent, {})
            if not isinstance(level, dict):
                name = ".".join(parents[:depth])
                raise SettingsError(
                    f"{origins[key]}: `{key}` conflicts with `{name}`, which is set as a whole; "
                    "keep one"
                )
        value = flat[key]
        parse = isinstance(value, str) and key not in texts
        level[last] = _parse(value, origins[key]) if parse else value
    return nested


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in tree.items():
        path = f"{prefix}{key}"
        if isinstance(value, dict) and value and _is_section(path):
            yield from _leaves(value, f"{path}.")
        else:
            yield path


def _variables(environment: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Dotted keys set in the environment, with the variable's name and value."""
    return {
        name[len(_PREFIX) :].lower().replace(_SEPARATOR, "."): (name, value)
        for name, value in environment.items()
        if name.startswith(_PREFIX) and name != CLIENT_TOKEN and not _is_service_link(name, value)
    }


def _is_service_link(name: str, value: str) -> bool:
    """Kubernetes describes a Service called ragmon to its pods by variables of our prefix."""
    return bool(_SERVICE_LINK.fullmatch(name)) or (name.endswith("_PORT") and "://" in value)


def _fields(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, Any]]:
    """Every setting as a dotted key, with its type."""
    for name, field in model.model_fields.items():
        section, *others = _alternatives(field.annotation)
        if not others and isinstance(section, type) and issubclass(section, BaseModel):
            yield from _fields(section, f"{prefix}{name}.")
        else:
            yield prefix + name, field.annotation


def _alternatives(kind: Any) -> list[Any]:
    """The types that a setting may have, besides None."""
    members = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    return [member for member in members if member is not type(None)]


def _is_text(kind: Any) -> bool:
    return all(member in (str, Path, SecretStr) for member in _alternatives(kind))


def _is_free_form(kind: Any) -> bool:
    """True for a mapping and for a list of mappings or sections: their keys are checked later."""
    return any(
        get_origin(member) is dict
        or any(_is_free_form(item) or hasattr(item, "model_fields") for item in get_args(member))
        for member in _alternatives(kind)
    )


def _is_section(path: str) -> bool:
    return any(key.startswith(path + ".") for key in keys())


def _is_known(path: str) -> bool:
    """True for a setting, a section, or a key inside a free-form setting such as ``store``."""
    return _is_section(path) or any(
        path == key or (_is_free_form(kind) and path.startswith(f"{key}."))
        for key, kind in _fields(Settings, "")
    )


def _unknown(key: str, origin: str) -> str:
    every = keys()
    groups = {name.rpartition(".")[0] for name in every} - {""}
    like = nearest(key, [*every, *sorted(groups)])
    remedy = f"did you mean `{like}`?" if like else "`ragmon check-config` lists the settings"
    return f"{origin}: unknown setting `{key}`; {remedy}"


def _explain(error: ValidationError, origins: Mapping[str, str]) -> str:
    parts = []
    problems = error.errors(include_url=False, include_input=False)
    inner = {problem["loc"][:-1] for problem in problems}
    for problem in problems:
        if problem["type"] == "too_short" and problem["loc"] in inner:
            continue  # only for the bad entry that was named
        key = ".".join(str(part) for part in problem["loc"])
        origin = next((o for name, o in origins.items() if f"{key}.".startswith(f"{name}.")), "")
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            parts.append(_unknown(key, origin or "settings"))
        elif problem["type"] == "model_type" and _is_section(key):
            inside = [each for each in keys() if each.startswith(f"{key}.")]
            parts.append(f"{origin}: `{key}` is a group; set {', '.join(inside)}")
        else:
            parts.append(f"{origin + ': ' if origin else ''}{key or 'settings'}: {message}")
    return "; ".join(parts)
