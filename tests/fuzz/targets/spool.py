"""The client's spool: records appended, files damaged and adopted, in any order."""

import os
import shutil
import tempfile
from pathlib import Path

from ragmon.client.spool import Segment, Spool
from tests.fuzz.source import Source

WORDS = [b"\n", b'{"query_id":"', b"\x00"]
_FOLDER = Path(tempfile.mkdtemp()) / "spool"
_MOST_BYTES = 2_000


def seeds() -> list[bytes]:
    """Sequences of appends, deliveries, restarts and damage."""
    return [bytes([damaged, *operations])
            for damaged in (0, 1)
            for operations in ((0, 3, 9, 1, 2, 0, 5, 9, 1, 1), (0, 8, 1, 3, 1, 1, 0, 2, 2, 1),
                               (0, 3, 4, 9, 1, 5, 3, 1),
                               (0, 1, 1, 4, 20, 65, 66, 10, 3, 1, 1))]  # fmt: skip


def run(data: bytes) -> None:
    """What was appended comes out once; files of one moment in any order."""
    source = Source(data)
    shutil.rmtree(_FOLDER, ignore_errors=True)
    may_damage = source.byte() & 1
    spool, now, steps = Spool(_FOLDER, _MOST_BYTES, segment_bytes=300), 1.7e9, 0
    waiting: list[bytes] = []
    out: list[bytes] = []
    number = 0
    try:
        while source and steps < 40:
            steps += 1
            now += 1.0
            kind = source.below(6 if may_damage else 4)
            if kind == 0:
                lines = [
                    b"%d:" % (number + at) + b"x" * source.below(120)
                    for at in range(source.below(9))
                ]
                number += len(lines)
                waiting += lines[: spool.append(lines, now)]
            elif kind == 1:
                _deliver(spool, out)
            elif kind == 2:
                spool.release()  # as the end of the process does
                spool = Spool(_FOLDER, _MOST_BYTES, segment_bytes=300)
            elif kind == 3 and (segment := spool.oldest(adopt=True)) is not None:
                spool.release(segment)
                spool = Spool(_FOLDER, _MOST_BYTES, segment_bytes=300)
            elif kind > 3:
                _damage(source)
        spool.release()
        spool = Spool(_FOLDER, _MOST_BYTES, segment_bytes=300)
        while _deliver(spool, out):
            pass
    finally:
        spool.release()
    if not may_damage:
        assert sorted(out) == sorted(waiting), (out, waiting)


def _deliver(spool: Spool, out: list[bytes]) -> bool:
    segment: Segment | None = spool.oldest(adopt=True)
    if segment is None:
        return False
    out += segment.lines()
    spool.discard(segment)
    return True


def _damage(source: Source) -> None:
    _FOLDER.mkdir(exist_ok=True)
    files = sorted(_FOLDER.iterdir())
    kind = source.below(6)
    name = _FOLDER / f"{source.number(2):017d}-1-00.spool"
    is_free = not os.path.lexists(name)
    if kind == 0 and is_free:
        name.write_bytes(source.take(source.below(60)))
    elif kind == 1 and is_free:
        name.mkdir()
    elif kind == 2 and is_free:
        os.mkfifo(name)
    elif kind == 3 and is_free:
        name.symlink_to(source.choose(("/etc/passwd", "nothing", ".")))
    elif files and (chosen := source.choose(files)).is_file() and not chosen.is_symlink():
        content = bytearray(chosen.read_bytes())
        at = source.below(len(content) + 1)
        content[at : at + source.below(9)] = source.take(source.below(6))
        chosen.write_bytes(content)
