"""Loss of power: of what was not synced, any part may be on disk or not, in any order."""

import random
import shutil
from pathlib import Path

_SECTOR = 512
_NOT_FILES = ("-shm", ".entry")


def begin(data_dir: Path, durable: Path) -> None:
    """Take the files as they are for durable; called before the process starts."""
    shutil.rmtree(durable, ignore_errors=True)
    durable.mkdir()
    if not data_dir.exists():
        return
    for path in data_dir.iterdir():
        if path.is_file() and not path.name.endswith(_NOT_FILES):
            shutil.copy(path, durable / path.name)
            (durable / f"{path.name}.entry").touch()


def lose(data_dir: Path, durable: Path, chance: random.Random, survivors: float) -> int:
    """Leave what a loss of power leaves; called when the process is dead.

    Args:
        data_dir: its folder.
        durable: what it had synced, as the preloaded library noted.
        chance: draws which sectors reached the disk all the same.
        survivors: share of the unsynced sectors that did.

    Returns:
        Bytes that differ from what the process had written.
    """
    lost = 0
    for path in sorted(data_dir.iterdir()):
        if not path.is_file() or path.name.endswith("-shm"):
            path.unlink(missing_ok=True)
            continue
        written = path.read_bytes()
        synced = durable / path.name
        if not (durable / f"{path.name}.entry").exists() and chance.random() >= survivors:
            path.unlink()  # the folder does not know of it
            lost += len(written)
            continue
        left = _mixed(written, synced.read_bytes() if synced.exists() else b"", chance, survivors)
        path.write_bytes(left)
        lost += sum(one != other for one, other in zip(written, left, strict=False))
        lost += abs(len(written) - len(left))
    return lost


def _mixed(written: bytes, synced: bytes, chance: random.Random, survivors: float) -> bytes:
    """Sectors of either, and the length of either."""
    if written == synced:
        return synced
    length = len(written) if chance.random() < survivors else len(synced)
    left = bytearray(synced[:length].ljust(length, b"\0"))
    for at in range(0, min(length, len(written)), _SECTOR):
        sector = written[at : at + _SECTOR][: length - at]
        if left[at : at + len(sector)] != sector and chance.random() < survivors:
            left[at : at + len(sector)] = sector
    return bytes(left)
