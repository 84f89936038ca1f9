"""Places that ragmon cannot reach, where content that it erased may still be."""

from collections.abc import Iterable
from pathlib import Path

from ragmon.config import Settings
from ragmon.config.sections import BackupSettings
from ragmon.durations import minute_text
from ragmon.erasure_schema import RemainingPlace
from ragmon.privacy import redact_text
from ragmon.privacy.erasure import Subject
from ragmon.stores.damage import DamagedRow
from ragmon.windows import Windows

_MOST_NAMED = 20
_BESIDE = ("-wal", "-shm", "-journal")


def remaining_places(
    settings: Settings, windows: Windows, subject: Subject, finished_at: float
) -> list[RemainingPlace]:
    """Everything that is left for the operator to do; on the writer's thread."""
    when = minute_text(finished_at)
    places = [_backups(settings.backup, when)]
    places += [_copy(path) for path in _copies(settings.data_dir)]
    places += [
        RemainingPlace(place=f"the followed file {source['path']} and its rotated copies",
                       action="delete the lines there, or rotate it out")
        for source in settings.sources
        if "path" in source
    ]  # fmt: skip
    places += [
        RemainingPlace(place=f"messages of the topic {source['topic']}",
                       action="they expire with its retention: shorten it, or delete them there")
        for source in settings.sources
        if source["kind"] == "kafka"
    ]  # fmt: skip
    if settings.sinks:
        names = ", ".join(sorted({sink.name or sink.kind for sink in settings.sinks}))
        places.append(
            RemainingPlace(
                place=f"notifications sent before {when} to {names}",
                action="they may quote a question of up to 200 characters: delete them there",
            )
        )
    if settings.otlp_export is not None:
        places.append(
            RemainingPlace(
                place=f"verdicts exported before {when} to the endpoint of otlp_export",
                action="delete the traces there",
            )
        )
    if any(subject.id in _values(key) for key in windows.series.keys):
        places.append(
            RemainingPlace(
                place="counts of windows that carry the id as the value of a slice",
                action="they expire with retention.windows; take that tag out of slices",
            )
        )
    if settings.privacy.text != "keep" and redact_text(subject.id) != subject.id:
        places.append(
            RemainingPlace(
                place="records whose id was redacted before it was stored",
                action="privacy.text made many ids alike, so they cannot be told apart; they"
                " expire with retention.records",
            )
        )
    return places


def damaged_places(rows: Iterable[DamagedRow]) -> list[RemainingPlace]:
    """The damaged blocks, which cannot be searched."""
    blocks = [row.name for row in rows if row.what == "block"]
    if not blocks:
        return []
    names = ", ".join(blocks[:_MOST_NAMED]) + (", …" if len(blocks) > _MOST_NAMED else "")
    return [
        RemainingPlace(
            place=f"{len(blocks)} damaged blocks of records, which cannot be read"
            f" (by their first sequence number: {names})",
            action="restore a sound backup and ask again, or let them expire with"
            " retention.records; `ragmon verify` lists them",
        )
    ]


def _backups(backup: BackupSettings, when: str) -> RemainingPlace:
    known = f", such as those in {backup.to} (backup.to)" if backup.to else ""
    return RemainingPlace(
        place=f"backups and volume snapshots made before {when}{known}",
        action="delete them, or let them expire; after a restore, ask again for the erasure",
    )


def _copies(data_dir: Path) -> list[Path]:
    """Copies of the store beside it, such as the one made before its format changed."""
    files = sorted(data_dir.glob("*.sqlite*"))
    return [path for path in files if path.name != "ragmon.sqlite" and not _is_log(path)]


def _is_log(path: Path) -> bool:
    return path.name.endswith(_BESIDE)


def _copy(path: Path) -> RemainingPlace:
    made = minute_text(path.stat().st_mtime)
    return RemainingPlace(place=f"the copy {path.name} of the store, made {made}",
                          action="delete it")  # fmt: skip


def _values(key: object) -> tuple[object, ...]:
    return key if isinstance(key, tuple) else ()
