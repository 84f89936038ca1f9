"""Kept inputs of each target: one archive a target, as OSS-Fuzz keeps seed corpora."""

import hashlib
import importlib
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ARCHIVES = HERE / "corpus"
CRASHES = HERE / "crashes"
"""Inputs that failed once, in a folder a target, named by what was wrong."""
TARGETS = tuple(sorted(path.stem for path in (HERE / "targets").glob("[a-z]*.py")))

MOST_BYTES = 60_000  # of one archive
_NEVER = (1980, 1, 1, 0, 0, 0)  # a date of every file, so that an archive depends on inputs alone


def target(name: str) -> Any:
    """The module of a target."""
    folder = "tests.fuzz.targets" if name in TARGETS else "tests.fuzz"
    return importlib.import_module(f"{folder}.{name}")


def kept(name: str) -> list[bytes]:
    """The inputs in the archive of a target; none without an archive."""
    path = ARCHIVES / f"{name}.zip"
    if not path.exists():
        return []
    with zipfile.ZipFile(path) as archive:
        return [archive.read(entry) for entry in archive.namelist()]


def crashes(name: str) -> list[Path]:
    """Inputs that failed once."""
    folder = CRASHES / name
    return sorted(folder.iterdir()) if folder.is_dir() else []


def inputs(name: str) -> list[bytes]:
    """All inputs to begin with: none, seeds, kept ones and those that failed once."""
    former = [path.read_bytes() for path in crashes(name)]
    return [b"", *target(name).seeds(), *kept(name), *former]


def keep(name: str, inputs: Iterable[bytes]) -> int:
    """Write an archive of the smallest inputs that fit; returns how many."""
    ARCHIVES.mkdir(exist_ok=True)
    count = size = 0
    with zipfile.ZipFile(
        ARCHIVES / f"{name}.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9
    ) as archive:
        for data in sorted(set(inputs), key=lambda each: (len(each), each)):
            size += len(data) + 90  # what an entry takes besides
            if size > MOST_BYTES:
                break
            name_of_entry = hashlib.sha256(data).hexdigest()[:12]
            archive.writestr(zipfile.ZipInfo(name_of_entry, _NEVER), data, zipfile.ZIP_DEFLATED)
            count += 1
    return count


def unpack(name: str, folder: Path) -> None:
    """Put the seeds, kept inputs and former crashes of a target into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    former = [path.read_bytes() for path in crashes(name)]
    for data in (*target(name).seeds(), *kept(name), *former):
        (folder / hashlib.sha256(data).hexdigest()[:12]).write_bytes(data)
