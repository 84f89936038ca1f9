"""Answers in parts, compressed: one text for every decoder."""

import gzip
import zlib

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ragmon.content_coding import CODINGS, choose_coding, encode, finish


def plain(coding: str, body: bytes) -> bytes:
    """The text of an answer, by decoders that read one stream to its end."""
    if coding == "gzip":
        decoder = zlib.decompressobj(zlib.MAX_WBITS | 16)  # a single member, as curl reads it
        text = decoder.decompress(body)
        assert (decoder.eof, decoder.unused_data) == (True, b"")
        assert gzip.decompress(body) == text
        return text
    if coding == "zstd":
        reader = zstandard.ZstdDecompressor().stream_reader(body, read_across_frames=True)
        return reader.read()
    return body


@pytest.mark.parametrize("coding", ["", *CODINGS])
@given(st.binary(max_size=3_000), st.binary(max_size=300))
def test_parts_are_read_back_as_one(coding, start, rest):
    kept = encode(coding, start)
    assert plain(coding, finish(coding, kept, rest)) == start + rest
    assert plain(coding, finish(coding, kept, b"")) == start


@pytest.mark.parametrize("coding", CODINGS)
def test_metrics_shrink_to_a_tenth(coding):
    page = b"".join(b'ragmon_hit_ratio{pipeline="p%d"} %d\n' % (at, at) for at in range(5_000))
    assert len(finish(coding, encode(coding, page), b"ragmon_up 1\n")) < len(page) / 8


def test_every_coding_on_offer_can_be_chosen():
    assert {choose_coding(coding) for coding in CODINGS} == set(CODINGS)
