"""Tokens that ragmon makes itself, in files of `data_dir` that `ragmon token show` reads.

So a chart, a unit or a compose file needs no secret of its own: it is the same each time that it is
rendered, and what is on the volume stays.
"""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from ragmon.errors import SettingsError

_FOLDER = "tokens"
_OLD = 1  # tokens that a rotation leaves in use beside the new one


class GeneratedTokens:
    """The files of one data directory: a file a token, its newest secret first."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / _FOLDER

    def path(self, name: str) -> Path:
        """File of a token."""
        return self._folder / name

    def names(self) -> list[str]:
        """The tokens that have been made."""
        if not self._folder.is_dir():
            return []
        return sorted(path.name for path in self._folder.iterdir() if path.suffix != ".new")

    def make(self, names: Sequence[str]) -> list[str]:
        """Make those that are missing; returns their names.

        Raises:
            SettingsError: the directory cannot be written.
        """
        missing = [name for name in names if not self.path(name).exists()]
        for name in missing:
            self._write(name, [_new()])
        return missing

    def secrets(self, name: str) -> list[str]:
        """The secrets that are accepted, the newest first.

        Raises:
            SettingsError: there are none, or they cannot be read.
        """
        path = self.path(name)
        if Path(name).name != name:
            raise SettingsError(
                f"{name!r} is no name of a token", hint="`ragmon token show` lists them"
            )
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(
                f"cannot read {path}: {getattr(error, 'strerror', None) or 'not UTF-8'}",
                hint="ragmon makes it at its start where auth.tokens says `generate: true`; "
                "run this as the user of ragmon, with its data_dir",
            ) from error
        known = [line.strip() for line in lines if line.strip()]
        if not known:
            raise SettingsError(f"{path} is empty", hint="Delete it and restart ragmon")
        return known

    def rotate(self, name: str) -> str:
        """Put a new secret before the newest, which stays in use; returns the new one.

        Raises:
            SettingsError: there is no such token, or its file cannot be written.
        """
        fresh = _new()
        self._write(name, [fresh, *self.secrets(name)[:_OLD]])
        return fresh

    def retire(self, name: str) -> int:
        """Leave only the newest secret in use; returns the number of those that ended.

        Raises:
            SettingsError: there is no such token, or its file cannot be written.
        """
        newest, *old = self.secrets(name)
        if old:
            self._write(name, [newest])
        return len(old)

    def _write(self, name: str, lines: Sequence[str]) -> None:
        path = self.path(name)
        fresh = path.with_name(f"{name}.new")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            owner = (path if path.exists() else self._folder).stat()
            fresh.unlink(missing_ok=True)
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in lines))
                file.flush()
                if os.geteuid() == 0:  # root rotates, and ragmon's user reads
                    os.fchown(descriptor, owner.st_uid, owner.st_gid)
                os.fsync(descriptor)
            fresh.replace(path)
        except OSError as error:
            raise SettingsError(
                f"cannot write {path}: {error.strerror}",
                hint="Make data_dir writable, or give token_file in place of `generate: true`",
            ) from error


def _new() -> str:
    return "rgm_" + secrets.token_urlsafe(32)
