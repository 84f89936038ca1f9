"""Free-form settings that may hold secrets: printed with their values hidden."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit


class Masked(dict[str, Any]):
    """A dictionary whose texts are hidden wherever it is printed."""

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{key}: {_shown(key, value)}" for key, value in self.items()) + "}"


def masked(values: Mapping[str, Any] | None) -> Masked | None:
    """The same values, hidden when printed."""
    return None if values is None else Masked(values)


def _shown(key: str, value: Any) -> str:
    plain = key == "kind" or key.endswith(("_file", "_env"))
    if plain or value is None or isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, str) and (host := urlsplit(value).hostname):
        return f"{urlsplit(value).scheme}://{host}/…"  # the path may be the secret
    return "(hidden)"
