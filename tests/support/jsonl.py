"""A source that follows a file, its disk, and the file: restarted, rotated and killed at will."""

import gzip
import os

import zstandard

from ragmon.clock import ManualClock
from ragmon.errors import OverloadedError
from ragmon.sources import IngestOutcome, SourceContext
from ragmon.sources.jsonl import JsonlSource, Options
from ragmon.stores.quarantine import QuarantinedItem

NOW = 1_750_000_000.0


class Killed(BaseException):
    """The process ends here."""


class Disk:
    """What outlives the source: records and offsets, committed together. Also sink and counters."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW)
        self.records: list[str] = []
        self.quarantined: list[QuarantinedItem] = []
        self.offsets: dict[str, bytes] = {}
        self.counted: dict[str, int] = {}
        self.examples: list[tuple[str, str, str]] = []
        self.trouble: list[Exception] = []
        self.outcome: IngestOutcome | None = None  # instead of all being accepted
        self.killed: str = ""  # "before" or "after" the next commit

    def submit(self, submission) -> None:
        if self.trouble:
            trouble = self.trouble.pop(0)
            if isinstance(trouble, OverloadedError):
                raise trouble
            submission.reply(IngestOutcome(error=trouble))
            return
        if self.killed == "before":
            raise Killed
        self.quarantined += submission.quarantined
        self.records += [each.query_id for each in submission.records or submission.changes]
        self.offsets.update(submission.offsets)
        if self.killed == "after":
            raise Killed
        answered = self.outcome if submission.records or submission.changes else None
        submission.reply(answered or IngestOutcome(accepted=len(submission.records)))

    def accepted(self, source, count):
        self.counted["accepted"] = self.counted.get("accepted", 0) + count

    def duplicated(self, source, count):
        self.counted["duplicates"] = self.counted.get("duplicates", 0) + count

    def unmapped(self, source, field, count):
        self.counted[f"no {field}"] = self.counted.get(f"no {field}", 0) + count

    def rejected(self, source, reason, count=1):
        assert source in ("jsonl", "kafka", "objects", "sql")
        self.counted[reason] = self.counted.get(reason, 0) + count

    def note_refusal(self, source, reason, at, text):
        self.examples.append((source, reason, text))


class Follower:
    """A source that is restarted at will, its disk, and the file it follows."""

    def __init__(self, folder, **options) -> None:
        self.path = folder / "rag.log"
        self.disk = Disk()
        self._changes = 0
        self._options = Options(path=self.path, **options)
        self.restart()

    def restart(self) -> None:
        context = SourceContext(
            sink=self.disk,
            counters=self.disk,
            clock=self.disk.clock,
            offset=self.disk.offsets.get,
            retention_s=7 * 86_400,
            max_skew_s=300,
        )
        self.source = JsonlSource(self._options, context)

    def write(self, *ids: str, to=None, end: str = "\n") -> None:
        with (to or self.path).open("a", encoding="utf-8") as file:
            file.write("\n".join(f'{{"query_id":"{each}"}}' for each in ids) + end)
        self._date(to or self.path)

    def read(self) -> list[str]:
        """Everything there is to read; rotation is given the time to be over."""
        for _ in range(3):
            while self.source.step():
                pass
            self.disk.clock.sleep(60)
        return self.disk.records

    def rotated(self, suffix: str = ".1"):
        return self.path.with_name(self.path.name + suffix)

    def rename(self, suffix: str = ".1"):
        return self.path.rename(self.rotated(suffix))

    def compress(self, path, end: str = ".gz"):
        """As rotation does it: the time of the last line stays, the plain file goes."""
        packed = path.with_name(path.name + end)
        content, status = path.read_bytes(), path.stat()
        pack = gzip.compress if end == ".gz" else zstandard.ZstdCompressor().compress
        packed.write_bytes(pack(content))
        os.utime(packed, ns=(status.st_atime_ns, status.st_mtime_ns))
        path.unlink()
        return packed

    def copy_truncate(self, suffix: str = ".1") -> None:
        self.rotated(suffix).write_bytes(self.path.read_bytes())
        os.truncate(self.path, 0)
        self._date(self.rotated(suffix))
        self._date(self.path)

    def _date(self, path) -> None:
        """Date a change; no two are within one tick of the clock, as they may be in tests."""
        self._changes += 1
        os.utime(path, (NOW + self._changes, NOW + self._changes))
