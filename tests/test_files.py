"""Files of lines, plain and compressed."""

import gzip
import io

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ragmon.files import chunks, unpacked

TEXT = b"one\ntwo\n\nfour"
PACKED = {
    "plain": TEXT,
    "empty": b"",
    "gzip": gzip.compress(TEXT),
    "gzip in two members": gzip.compress(TEXT[:5]) + gzip.compress(TEXT[5:]),
    "zstd": zstandard.ZstdCompressor().compress(TEXT),
    "zstd in two frames": b"".join(
        zstandard.ZstdCompressor().compress(part) for part in (TEXT[:5], TEXT[5:])
    ),
}


@pytest.mark.parametrize("name", PACKED)
def test_is_unpacked_by_its_content(name):
    with unpacked(io.BytesIO(PACKED[name])) as stream:
        assert stream.read() == (b"" if name == "empty" else TEXT)


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_lines_of_an_unpacked_file(name):
    with unpacked(io.BytesIO(PACKED[name])) as stream:
        assert list(stream) == [b"one\n", b"two\n", b"\n", b"four"]


@given(
    st.lists(st.binary(max_size=6).map(lambda line: line.replace(b"\n", b""))), st.integers(1, 9)
)
def test_chunks_are_whole_lines_with_their_numbers(lines, size):
    found = {}
    for first, chunk in chunks(io.BytesIO(b"\n".join(lines)), size):
        for number, line in enumerate(chunk.split(b"\n"), first):
            assert number not in found
            found[number] = line
    expected = {number: line for number, line in enumerate(lines, 1) if line}
    assert {number: line for number, line in found.items() if line} == expected
