"""The embedded store: nothing to install, one file in ``data_dir``."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from ragmon.stores.sqlite.store import SqliteStore


class Options(BaseModel, frozen=True, extra="forbid"):
    """``store:`` settings of the embedded store."""

    synchronous: Literal["FULL", "NORMAL"] = "FULL"
    """NORMAL saves one fsync a commit and loses the last ones on power loss (not on kill -9)."""


def build(options: Options, data_dir: Path) -> SqliteStore:
    """Open it, or create it."""
    return SqliteStore(data_dir, synchronous=options.synchronous)
