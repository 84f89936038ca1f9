"""The embedded store: nothing to install, one file in ``data_dir``."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from ragmon.stores.sqlite.store import SqliteStore


class Options(BaseModel, frozen=True, extra="forbid"):
    """``store:`` settings of the embedded store."""

    synchronous: Literal["FULL", "NORMAL"] = "FULL"
    """FULL: a committed query survives a power loss. NORMAL: one fsync less a commit, but the
    last commits may be lost in a power loss (not if only ragmon is killed)."""


def build(options: Options, data_dir: Path) -> SqliteStore:
    """Open it, or create it."""
    return SqliteStore(data_dir, synchronous=options.synchronous)
