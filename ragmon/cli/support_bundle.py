"""File for a support ticket: what the doctor found, settings and metrics, without secrets."""

import io
import os
import platform
import sqlite3
import tarfile
from collections.abc import Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path

import msgspec

from ragmon import __version__
from ragmon.cli.check_config import SettingRow
from ragmon.cli.health_checks import HealthReport
from ragmon.errors import SettingsError

_SLICES = "ragmon_slice_"  # their labels are values of tags, such as names of customers
_README = """Made by `ragmon doctor --bundle`.

report.json    what was looked at, what is wrong, how to mend it
settings.json  every setting; secrets read (hidden)
metrics.txt    /metrics of the daemon, without the series of slices
versions.json  ragmon, Python, SQLite, the kernel and the installed packages

It holds no query, answer, token or password. It does hold names of pipelines, versions, hosts and
files: read it before you send it.
"""


def write_bundle(
    path: Path, report: HealthReport, settings: Sequence[SettingRow], metrics: str
) -> None:
    """Write it, readable by its owner alone.

    Raises:
        SettingsError: it is there already, or cannot be written.
    """
    files = {
        "README.txt": _README.encode(),
        "report.json": _json(report),
        "settings.json": _json([row._asdict() for row in settings]),
        "metrics.txt": _without_slices(metrics).encode(),
        "versions.json": _json(_versions()),
    }
    try:
        opened = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError as error:
        raise SettingsError(
            f"--bundle: cannot write {path}: {error.strerror}", hint="Name another file"
        ) from error
    with os.fdopen(opened, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"ragmon-support/{name}")
            entry.size, entry.mode, entry.mtime = len(content), 0o600, report.at
            archive.addfile(entry, io.BytesIO(content))


def _json(content: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def _without_slices(metrics: str) -> str:
    lines = metrics.splitlines(keepends=True)
    return "".join(line for line in lines if not line.removeprefix("# ").startswith(_SLICES))


def _versions() -> Mapping[str, object]:
    return {
        "ragmon": __version__,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "packages": dict(sorted((one.name, one.version) for one in distributions())),
    }
