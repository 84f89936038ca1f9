"""Build hooks of ragmon-client: its version and its source, from the repository or the sdist."""

import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

_VERSION = re.compile(r'^VERSION = "(.+)"$', re.MULTILINE)


def _base(root: str) -> Path:
    """The folder that holds ``ragmon/client``: the sdist itself, or the repository."""
    here = Path(root)
    return here if (here / "ragmon" / "client").is_dir() else here.parent.parent


class ClientVersion(MetadataHookInterface):
    """Version as the source has it."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the version."""
        source = _base(self.root) / "ragmon" / "client" / "limits.py"
        match = _VERSION.search(source.read_text(encoding="utf-8"))
        if match is None:
            raise ValueError(f"no VERSION in {source}")
        metadata["version"] = match[1]


class ClientSource(BuildHookInterface[Any]):
    """Source of the client, placed as a part of the namespace package ``ragmon``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the source and the licence.

        Raises:
            ValueError: for an editable install; that of the repository has the client.
        """
        if version == "editable":
            raise ValueError("ragmon-client cannot be editable: pip install -e . at the root")
        base = _base(self.root)
        inside = "ragmon/client/" if self.target_name == "wheel" else ""
        build_data["force_include"] |= {
            str(base / "ragmon" / "client"): "ragmon/client",
            str(base / "LICENSE"): f"{inside}LICENSE",
        }
