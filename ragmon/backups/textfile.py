"""Success and failure of backups as metrics for the textfile collector of node_exporter."""

from pathlib import Path

from ragmon.backups import Backup, BackupError

_PREFIX = "ragmon_backup_"
_HELP = {
    "last_success_timestamp_seconds": "Unix time of the newest complete backup.",
    "last_failure_timestamp_seconds": "Unix time of the last backup that failed; 0 for none.",
    "last_size_bytes": "Compressed size of the newest complete backup.",
    "interval_seconds": "Time from one backup to the next, as asked for; 0 for a single one.",
    "failures": "Backups that failed since the last one that succeeded.",
}


METRICS = frozenset(_PREFIX + name for name in _HELP)
"""Their names. The daemon does not export them: node_exporter does."""


class BackupHealth:
    """The file, written whole under another name and then renamed, as the collector needs it."""

    def __init__(self, path: Path | None, interval_s: float) -> None:
        self._path = path
        self._values = dict.fromkeys(_HELP, 0.0) | self._read() | {"interval_seconds": interval_s}

    def note_success(self, backup: Backup) -> None:
        """Write that a backup is complete."""
        self._values["last_success_timestamp_seconds"] = backup.made_at
        self._values["last_size_bytes"] = float(backup.size_bytes)
        self._values["failures"] = 0.0
        self._write()

    def note_failure(self, now: float) -> None:
        """Write that one failed; the newest complete one stays known."""
        self._values["last_failure_timestamp_seconds"] = now
        self._values["failures"] += 1.0
        self._write()

    def _read(self) -> dict[str, float]:
        """Values that a run before wrote."""
        values: dict[str, float] = {}
        if self._path is not None and self._path.is_file():
            for line in self._path.read_text(encoding="utf-8", errors="replace").splitlines():
                name, _, number = line.removeprefix(_PREFIX).partition(" ")
                if name in _HELP:
                    values[name] = float(number)
        return values

    def _write(self) -> None:
        if self._path is None:
            return
        lines = []
        for name, text in _HELP.items():
            metric = f"{_PREFIX}{name}"
            lines += [f"# HELP {metric} {text}", f"# TYPE {metric} gauge"]
            lines.append(f"{metric} {self._values[name]:.15g}")
        partial = self._path.with_name(f".{self._path.name}.partial")
        try:
            partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
            partial.chmod(0o644)  # node_exporter is another user; it holds no content
            partial.rename(self._path)
        except OSError as error:
            raise BackupError(f"cannot write {self._path}: {error.strerror}") from error
