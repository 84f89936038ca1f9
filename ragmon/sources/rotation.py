"""The files that rotation makes of a log: renamed, copied, compressed; and the order of them."""

import re
from pathlib import Path

from ragmon.sources.log_file import COMPRESSED, FilePosition, LogOpener

_AGE = r"[0-9][0-9T_.:-]*?"  # what rotation adds to a name: a number or a date
_MOST = 1_000  # files that are looked into, the newest


class RotatedLog:
    """A log by its path, with the files that it was before."""

    def __init__(self, path: Path) -> None:
        self.path = path
        stem, suffix = re.escape(path.stem), re.escape(path.suffix)
        ends = "|".join(map(re.escape, COMPRESSED))
        self._name = re.compile(
            f"(?:{stem}(?:{suffix})?[.-]{_AGE}|{stem}[.-]{_AGE}{suffix})(?P<end>{ends})?"
        )

    def find(self, place: FilePosition | None) -> Path | None:
        """The file that holds the place: the path itself, or what rotation made of it.

        Where it is gone, the oldest that was written to after the place was read.
        """
        if place is None:
            return self.path if self.path.is_file() else None
        if _holds(self.path, place, same_inode=True):
            return self.path
        rotated = self.rotated()
        for same_inode in (True, False):  # renamed, else compressed, or copied and then truncated
            for candidate in reversed(rotated):
                if _holds(candidate, place, same_inode=same_inode):
                    return candidate
        later = [path for path in rotated if place.modified_ns and _is_later(path, place)]
        return next(iter(later), self.path if self.path.is_file() else None)

    def rotated(self) -> list[Path]:
        """Rotated files by the time of their last line; of one that is being compressed, itself."""
        matches = [
            (path, match["end"] or "")
            for path in self.path.parent.iterdir()
            if (match := self._name.fullmatch(path.name))
        ]
        plain = {path.name for path, end in matches if not end}
        dated = [
            (_modified_ns(path), path)
            for path, end in matches
            if not end or path.name.removesuffix(end) not in plain  # else it is not yet whole
        ]
        return [path for _, path in sorted(dated)][-_MOST:]

    def after(self, path: Path, place: FilePosition) -> Path | None:
        """The rotated file that follows another; None after the last.

        Args:
            path: of the other.
            place: in it.
        """
        rotated = self.rotated()
        later = rotated[rotated.index(path) + 1 :] if path in rotated else []
        return next((each for each in later if _is_later(each, place)), None)


def _is_later(path: Path, place: FilePosition) -> bool:
    """True for a file that was written to after the one of the place was first read."""
    return _modified_ns(path) > place.modified_ns


def _modified_ns(path: Path) -> int:
    """Time of the last line; 0 for a file that was renamed, or compressed, just now."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _holds(path: Path, place: FilePosition, *, same_inode: bool) -> bool:
    try:
        if not path.is_file() or (path.stat().st_ino == place.inode) is not same_inode:
            return False
        if not same_inode and not place.head_bytes:
            return False  # nothing to know it by
        with LogOpener().open(path) as log:
            return log.continues(place)
    except FileNotFoundError:
        return False  # renamed, or compressed just now
