"""Whole SQLite files with changed bytes: opened and read, or refused in words."""

import functools
import shutil
import tempfile
from pathlib import Path

from ragmon.errors import StoreError
from ragmon.queries import QuerySearch, page
from ragmon.queries.blocks import QueryFilter
from ragmon.queries.summaries import layout_of, summarize
from ragmon.queries.words import WordSearch
from ragmon.records import QueryRecord
from ragmon.stores.sqlite.store import FILE, SqliteStore
from ragmon.windows.observations import unpack
from tests.fuzz.guard import said_why
from tests.fuzz.source import Source
from tests.fuzz.worlds import NOW, pipeline
from tests.support.rig import Rig, rated, sent

WORDS: list[bytes] = []
_FOLDER = Path(tempfile.mkdtemp())
_PAGE = 16_384


def seeds() -> list[bytes]:
    """Changes of one byte, of many, of whole pages and of the length."""
    return [bytes([kind]) + bytes((step * at + 3) % 256 for at in range(16))
            for kind in range(5) for step in (3, 7, 29, 101)]  # fmt: skip


def run(data: bytes) -> None:
    """Everything is read, or the store says that it is damaged."""
    source = Source(data)
    content = bytearray(_whole())
    for _ in range(1 + source.below(3)):
        _damage(content, source)
    folder = _FOLDER / "damaged"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / FILE).write_bytes(content)
    try:
        _read(folder)
    except StoreError as error:
        said_why(error)


def _damage(content: bytearray, source: Source) -> None:
    kind = source.below(5)
    pages = max(1, len(content) // _PAGE)
    if kind <= 1:
        at = source.number(3) % (len(content) + 1)
        part = source.take(1 + source.below(8))
        content[at : at + len(part)] = part
    elif kind == 2:
        page = _PAGE * source.below(pages)
        content[page : page + _PAGE] = bytes(min(_PAGE, len(content) - page))
    elif kind == 3:
        one, other = _PAGE * source.below(pages), _PAGE * source.below(pages)
        if max(one, other) + _PAGE <= len(content):
            content[one : one + _PAGE], content[other : other + _PAGE] = (
                content[other : other + _PAGE], content[one : one + _PAGE],
            )  # fmt: skip
    else:
        del content[source.number(3) % (len(content) + 1) :]


def _read(folder: Path) -> None:
    store = SqliteStore(folder, synchronous="OFF")
    try:
        of = pipeline()
        for sequence in range(min(100, store.shard.next_sequence)):
            store.shard.record(sequence)
        store.shard.amendments(range(20))
        store.shard.waiting([store.shard.hash("later")])
        store.shard.find(store.shard.hash("q-1"))
        _, _, buckets = store.state.load_windows()
        for _ in buckets:
            pass
        for _ in store.state.follow({}):
            pass
        with store.reader() as reader:
            for block in reader.blocks(0.0, 2 * NOW):
                unpack(block.observations, of.columns)
                reader.records(block.first_sequence)
            reader.hashes_from(0)
            for outline in reader.outlines(0.0, 2 * NOW):
                reader.keys([outline.first_sequence])
                reader.contents(outline.first_sequence)
            asked = QueryFilter(0.0, 2 * NOW, "", (), 5, words=WordSearch.of("x"))
            page(QuerySearch(reader, of, asked))
        store.shard.compact(0, 100)
        store.shard.expire(NOW, None)
    finally:
        store.close()


@functools.cache
def _whole() -> bytes:
    folder = _FOLDER / "whole"
    folder.mkdir()
    rig = Rig(folder, pipeline())
    for batch in range(3):
        records = [
            QueryRecord(query_id=f"q-{10 * batch + at}", timestamp=NOW, query="x" * 50, chunks=[])
            for at in range(10)
        ]
        rig.commit(sent(*records), now=NOW)
    rig.commit(sent(changes=[rated("q-1", at=NOW), rated("later", at=NOW)]), now=NOW)
    with rig.store.reader() as reader:
        due = reader.due_summaries(layout_of(rig.pipeline), rig.store.shard.next_sequence, 100)
        rig.store.shard.summaries().begin(due)
        made = [summarize(reader, rig.pipeline, block.first_sequence) for block in due]
    assert rig.store.shard.summaries().put([row for row in made if row is not None]) == 3
    rig.store.close()
    return (folder / FILE).read_bytes()
