"""Files that a command is given to read."""

from collections.abc import Iterable
from pathlib import Path

from ragmon.errors import SettingsError


def check_files(paths: Iterable[Path]) -> None:
    """Refuse what cannot be read as a file, before anything is done with the others.

    Raises:
        SettingsError: there is none of that name, or it is a folder or the like.
    """
    for path in paths:
        if not path.exists():
            raise SettingsError(f"there is no file {path}")
        if not path.is_file():
            raise SettingsError(f"{path} is not a file")
