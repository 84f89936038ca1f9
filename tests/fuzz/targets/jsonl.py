"""The follower of a log file: written to, rotated, truncated, damaged and restarted at will.

What a correct writer does (append whole lines, rename and compress, copy and truncate) loses no
line and reads none twice. After damage only an orderly end is asked for.
"""

import shutil
import tempfile
from pathlib import Path

from tests.fuzz.source import Source
from tests.support.jsonl import Follower

WORDS = [b'{"query_id":"', b"\n", b'"}\n', b"\x00"]
_FOLDER = Path(tempfile.mkdtemp()) / "log"


def seeds() -> list[bytes]:
    """Sequences of what a writer does, without and with damage."""
    return [bytes([damaged, *operations])
            for damaged in (0, 1)
            for operations in ((0, 1, 4, 0, 2, 4), (0, 3, 0, 4, 2, 0, 4), (0, 4, 5, 0, 2, 0, 1, 4),
                               (6, 3, 255, 10, 7, 4), (0, 9, 2, 2, 0, 9, 4, 5, 4))]  # fmt: skip


def run(data: bytes) -> None:
    """Every line of a correct writer is read once, in order."""
    source = Source(data)
    shutil.rmtree(_FOLDER, ignore_errors=True)
    _FOLDER.mkdir()
    follower = Follower(_FOLDER)
    may_damage, written, steps = source.byte() & 1, 0, 0
    while source and steps < 24:
        steps += 1
        kind = source.below(8 if may_damage else 6)
        if kind <= 1:
            ids = [f"id-{written + at}" for at in range(1 + source.below(9))]
            written += len(ids)
            follower.write(*ids)
        elif kind == 2 and follower.path.exists():
            follower.read()  # a second rotation within seconds is another program's defect
            follower.write(f"id-{written}")  # and is not read before it is compressed
            written += 1
            _rotate(follower, f".{steps}", source, may_damage=bool(may_damage))
        elif kind == 3 and follower.path.exists():
            follower.read()  # copying and truncating loses what is written in between
            follower.copy_truncate(f".{steps}")
        elif kind == 4:
            follower.read()
        elif kind == 5:
            follower.restart()
        elif kind == 6:
            with follower.path.open("ab") as file:
                file.write(source.take(1 + source.below(40)))
        elif follower.path.exists():
            content = bytearray(follower.path.read_bytes())
            at = source.below(len(content) + 1)
            content[at : at + source.below(6)] = source.take(source.below(6))
            follower.path.write_bytes(content)
    records = follower.read()
    if not may_damage:
        assert records == [f"id-{at}" for at in range(written)], (records, written)
    else:
        assert all(isinstance(each, str) for each in records)


def _rotate(follower: Follower, suffix: str, source: Source, *, may_damage: bool) -> None:
    rotated = follower.rename(suffix)
    end = source.choose(("", ".gz", ".zst"))
    if not end:
        return
    packed = follower.compress(rotated, end)
    if may_damage and source.chance(128):
        content = bytearray(packed.read_bytes())
        at = source.below(len(content) + 1)
        content[at : at + source.below(6)] = source.take(source.below(6))
        packed.write_bytes(content)
