"""The source ``objects``: each row of each object once, across damage, restarts and kills."""

import gzip
import io
import json
import tracemalloc
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError
from structlog.testing import capture_logs

from ragmon import row_files
from ragmon.errors import RemoteError
from ragmon.sources import ListedObject, SourceContext, line_intake, objects
from ragmon.sources.objects import ObjectSource, Options
from tests.support.jsonl import NOW, Disk, Killed
from tests.support.modules import module


class Bucket:
    """Objects, as a bucket lists and gives them."""

    def __init__(self):
        self.contents = {}
        self.times = {}
        self.trouble = []

    def put(self, name, content, age_s=3_600.0):
        self.contents[name] = content
        when = datetime.fromtimestamp(NOW - age_s, UTC)
        self.times[name] = when.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def objects(self):
        for name, content in self.contents.items():
            yield ListedObject(name, len(content), self.times[name])

    def get_into(self, name, file):
        if self.trouble:
            raise self.trouble.pop()
        file.write(self.contents[name])


class Reader:
    """A source that is restarted at will, its disk and its bucket."""

    def __init__(self, **options):
        self.disk = Disk()
        self.bucket = Bucket()
        self._options = Options(url="s3://b/p", **options)
        self.restart()

    def restart(self):
        context = SourceContext(
            sink=self.disk,
            counters=self.disk,
            clock=self.disk.clock,
            offset=self.disk.offsets.get,
            retention_s=7 * 86_400,
            max_skew_s=300,
        )
        self.source = ObjectSource(self._options, context, self.bucket)

    def read(self):
        while self.source.step():
            pass
        return self.disk.records


def lines(*ids):
    return "".join(json.dumps({"query_id": each}) + "\n" for each in ids).encode()


@pytest.fixture
def reader():
    return Reader()


def test_objects_are_read_in_the_order_in_which_they_came(reader):
    reader.bucket.put("z.jsonl", lines("a", "b"), age_s=900)
    reader.bucket.put("dt=1/y.jsonl.gz", gzip.compress(lines("c")), age_s=800)
    reader.bucket.put("_SUCCESS", b"done")
    reader.bucket.put("folder/", b"")
    assert reader.read() == ["a", "b", "c"]
    reader.bucket.put("a.jsonl", lines("d"), age_s=700)
    reader.restart()
    assert reader.read() == ["a", "b", "c", "d"]


def test_two_of_one_moment_are_both_read(reader):
    reader.bucket.put("a.jsonl", lines("a"))
    assert reader.read() == ["a"]
    reader.bucket.put("b.jsonl", lines("b"))
    assert reader.read() == ["a", "b"]


def test_one_that_comes_in_the_second_of_the_last_one_before_its_name_is_read():
    reader = Reader(settle_s=0)
    reader.bucket.put("z.jsonl", lines("z"), age_s=0)
    assert reader.read() == []  # the second is not over
    reader.bucket.put("a.jsonl", lines("a"), age_s=0)
    reader.disk.clock.sleep(1)
    assert reader.read() == ["a", "z"]


def test_what_may_still_change_waits(reader):
    reader.bucket.put("a.jsonl", lines("a"), age_s=30)
    assert reader.read() == []
    reader.disk.clock.sleep(31)
    assert reader.read() == ["a"]


def test_an_object_that_is_written_again_is_read_again(reader):
    reader.bucket.put("a.jsonl", lines("a"), age_s=900)
    assert reader.read() == ["a"]
    reader.bucket.put("a.jsonl", lines("a", "b"), age_s=800)
    assert reader.read() == ["a", "a", "b"]  # the daemon counts an id once


@pytest.mark.parametrize("instant", ["before", "after"])
def test_a_kill_neither_repeats_nor_skips_a_row(reader, instant):
    ids = [str(at) for at in range(2_500)]  # three batches
    reader.bucket.put("a.jsonl", lines(*ids), age_s=900)
    reader.bucket.put("b.jsonl", lines("last"), age_s=800)
    for _ in range(4):
        reader.disk.killed = instant
        with pytest.raises(Killed):
            reader.read()
        reader.disk.killed = ""
        reader.restart()
        if instant == "before":
            break
    assert reader.read() == [*ids, "last"]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        pytest.param("a.json", b'[{"query_id": "x"}]', ["x"], id="an array"),
        pytest.param("a.csv", b"query_id,query\nx,why\n", ["x"], id="a table"),
        pytest.param("a.jsonl", b'{"query_id": "x"}\nnonsense\n', ["x"], id="a bad line"),
        pytest.param("a.json", b"nonsense", [], id="no array"),
        pytest.param("a.jsonl.gz", b"\x1f\x8bnonsense", [], id="damaged"),
    ],
)
def test_forms_and_damage(reader, name, content, expected):
    reader.bucket.put(name, content, age_s=900)
    reader.bucket.put("later.jsonl", lines("z"), age_s=800)
    assert reader.read() == [*expected, "z"]
    refused = reader.disk.counted.keys() - {"accepted", "duplicates"}
    assert refused <= {"malformed", "damaged_object"}
    assert bool(refused) == (b"nonsense" in content)


def test_an_object_that_is_too_large_is_left_out_and_told():
    reader = Reader(max_object_bytes=100)
    reader.bucket.put("large.jsonl", lines(*map(str, range(100))), age_s=900)
    reader.bucket.put("later.jsonl", lines("z"), age_s=800)
    with capture_logs() as logged:
        assert reader.read() == ["z"]
    assert reader.disk.counted["object_too_large"] == 1
    (line,) = (line for line in logged if line["event"] == "object_too_large")
    assert (line["object"], line["limit_bytes"]) == ("large.jsonl", 100)
    assert "max_object_bytes" in line["remedy"]
    reader.restart()
    assert reader.read() == ["z"]
    assert reader.disk.counted["object_too_large"] == 1


def test_one_that_does_not_fit_into_the_temporary_folder_waits_until_it_does(reader, monkeypatch):
    reader.bucket.put("a.jsonl", lines("a"))
    with monkeypatch.context() as patch:
        patch.setattr(objects, "free_bytes", lambda: 64 << 20)
        with pytest.raises(RemoteError, match=r"a\.jsonl of \d+ bytes does not fit.* TMPDIR"):
            reader.read()
    assert reader.disk.records == []
    assert reader.read() == ["a"]


def test_parquet_with_a_mapping(tmp_path):
    arrow = module("pyarrow")
    rows = [{"key": f"p{at}", "at": datetime.fromtimestamp(NOW, UTC)} for at in range(3)]
    module("pyarrow.parquet").write_table(arrow.Table.from_pylist(rows), tmp_path / "x")
    reader = Reader(form="parquet", mapping={"query_id": "key", "timestamp": "at"})
    reader.bucket.put("part-0001", (tmp_path / "x").read_bytes())
    assert reader.read() == ["p0", "p1", "p2"]


def test_an_object_that_is_gone_is_forgotten(reader):
    reader.bucket.put("a.jsonl", lines("a"), age_s=900)
    reader.bucket.put("b.jsonl", lines("b"), age_s=800)
    reader.bucket.trouble = [RemoteError("404")]
    with pytest.raises(RemoteError):
        reader.read()
    del reader.bucket.contents["a.jsonl"]
    assert reader.read() == ["b"]


@pytest.mark.parametrize(
    "options",
    [{"url": "http://b/p"}, {"url": "s3://"}, {"mapping": {"query": "a b"}}, {"form": "xml"}],
)
def test_options_that_cannot_be(options):
    with pytest.raises(ValidationError):
        Options(**{"url": "s3://b"} | options)


def packed_and_then_more(reader, name, parts):
    """The ids read of an object that unpacks to more than it has on the disk, and of the next."""
    packed = io.BytesIO()
    with gzip.open(packed, "wb", compresslevel=1) as file:
        for part in parts:
            file.write(part)
    reader.bucket.put(name, packed.getvalue(), age_s=900)
    reader.bucket.put("later.jsonl", lines("z"), age_s=800)
    tracemalloc.start()
    try:
        ids = list(reader.read())
        return ids, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


MEGABYTE = 1 << 20


@pytest.mark.parametrize(
    ("name", "parts", "expected", "reason"),
    [
        pytest.param(
            "a.jsonl.gz",
            [lines("x"), *[b"y" * MEGABYTE] * 40, b"\n", lines("y")],
            ["x", "y", "z"],
            "too_large",
            id="a line",
        ),
        pytest.param(
            "a.json.gz",
            [b"[", *[b" " * MEGABYTE] * 40, b"]"],
            ["z"],
            "damaged_object",
            id="an array of spaces",
        ),
        pytest.param(
            "a.json.gz",
            [b"[1", *[b",1" * MEGABYTE] * 3, b"]"],
            ["z"],
            "damaged_object",
            id="an array of numbers",
        ),
        pytest.param(
            "a.csv.gz",
            [b"query_id,query\nx,why\n", *[b"y" * MEGABYTE] * 40],
            ["x", "z"],
            "damaged_object",
            id="a cell",
        ),
        pytest.param(
            "a.csv.gz",
            [b"query_id,query\nx,why\n", *[b'"' + b"y" * 900_000 + b'",'] * 40],
            ["x", "z"],
            "damaged_object",
            id="many cells",
        ),
    ],
)
def test_what_unpacks_to_much_takes_little_memory(
    reader, monkeypatch, name, parts, expected, reason
):
    monkeypatch.setattr(row_files, "MOST_ROW", MEGABYTE)
    monkeypatch.setattr(row_files, "_MOST_TABLE_LINE", 2 * MEGABYTE)
    monkeypatch.setattr(line_intake, "_MOST_LINE_BYTES", MEGABYTE)
    monkeypatch.setattr(objects, "_MOST_ARRAY", 8 * MEGABYTE)
    ids, most = packed_and_then_more(reader, name, parts)
    assert ids == expected
    assert reader.disk.counted[reason] == 1
    assert most < 20 * MEGABYTE


def test_blank_lines_without_end_are_read_with_heartbeats(reader, monkeypatch):
    beats = []
    monkeypatch.setattr("ragmon.sources.objects.beat", lambda: beats.append(1))
    reader.bucket.put("a.jsonl.gz", gzip.compress(b"\n" * (16 * MEGABYTE)))
    assert reader.read() == []
    assert len(beats) > 2


def parquet(tmp_path, table):
    path = tmp_path / "x"
    module("pyarrow.parquet").write_table(table, path)
    return path.read_bytes()


def test_a_row_of_parquet_that_cannot_be_read_costs_only_itself(reader, tmp_path):
    arrow = module("pyarrow")
    times = arrow.array([0, 9_000_000_000_000_000, 0], arrow.timestamp("ms"))
    table = arrow.table({"query_id": ["a", "b", "c"], "query": ["x"] * 3, "tags": times})
    table = table.drop(["tags"]).append_column("seen", times)
    reader.bucket.put("a.parquet", parquet(tmp_path, table))
    assert reader.read() == ["a", "c"]
    assert reader.disk.counted["malformed"] == 1


def test_rows_of_parquet_that_share_a_large_text_take_little_memory(reader, tmp_path):
    arrow = module("pyarrow")
    large = arrow.array(["x" * (20 * MEGABYTE)]).dictionary_encode()
    indices = arrow.array([0] * 100, arrow.int32())
    texts = arrow.DictionaryArray.from_arrays(indices, large.dictionary)
    content = parquet(tmp_path, arrow.table({"query": texts}))
    assert len(content) < 4 * MEGABYTE
    reader.bucket.put("a.parquet", content)
    before = arrow.default_memory_pool().max_memory()
    reader.read()
    assert arrow.default_memory_pool().max_memory() - before < 400 * MEGABYTE
    assert reader.disk.counted["too_large"] == 100
