"""Bodies within limits: compressed, cut off, slow, and made to hurt."""

import asyncio
import gzip
import zlib

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ragmon.asgi import Problem, ReadGate, check_headers, over_memory, read_body
from ragmon.clock import SystemClock
from ragmon.errors import MemoryLimitError
from ragmon.memory import MemoryBudget, MemoryReservation
from tests.support.limits import body_limits

AMPLE = MemoryBudget(1 << 40)
LIMITS = body_limits(body=1_000_000, decompressed=2_000_000, headers=1_024, memory=AMPLE)


def ask(*parts: bytes, encoding="", leaves=False, limits=LIMITS, memory=None, announced=None):
    """What ``read_body`` makes of a body that arrives in parts; ``leaves``: and then no more."""
    headers = [(b"content-encoding", encoding.encode())] if encoding else []
    if announced is not None:
        headers.append((b"content-length", str(announced).encode()))
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    if leaves:
        messages.append({"type": "http.disconnect"})
    elif messages:
        messages[-1]["more_body"] = False
    waiting = iter(messages)

    async def receive():
        for message in waiting:
            return message
        return await asyncio.get_running_loop().create_future()  # the client says nothing more

    async def read():
        return await read_body(
            {"headers": headers}, receive, limits, memory or MemoryReservation(AMPLE)
        )

    return asyncio.run(read())


def refused(*parts, **how) -> Problem:
    with pytest.raises(Problem) as caught:
        ask(*parts, **how)
    return caught.value


def packed(name: str, *pieces: bytes) -> bytes:
    """The pieces, each a stream of its own."""
    if name == "gzip":
        return b"".join(gzip.compress(piece) for piece in pieces)
    sized = name == "zstd"
    packer = zstandard.ZstdCompressor(write_content_size=sized)
    return b"".join(packer.compress(piece) for piece in pieces)


FORMS = ["gzip", "zstd", "zstd of unknown size"]


@pytest.mark.parametrize("form", FORMS)
@given(st.lists(st.binary(max_size=3_000), max_size=5))
def test_streams_joined_together_unpack_as_one(form, pieces):
    assert ask(packed(form, *pieces), encoding=form.split()[0]) == b"".join(pieces)


@given(st.binary(max_size=200), st.integers(0, 199))
def test_a_plain_body_in_parts_is_whole(body, cut):
    assert ask(body[:cut], body[cut:]) == body


@pytest.mark.parametrize("form", FORMS)
def test_a_large_body_unpacks(form):
    body = bytes(range(256)) * 7_000
    assert ask(packed(form, body), encoding=form.split()[0]) == body


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cut", [1, 4, 12])
def test_a_truncated_stream_is_refused(form, cut):
    whole = packed(form, bytes(range(256)) * 50)
    problem = refused(whole[:-cut], encoding=form.split()[0])
    assert (problem.status, problem.reason) == (400, "bad_compression")


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"query":"plain"}', id="not compressed at all"),
        pytest.param(b"\x1f", id="one byte"),
        pytest.param(b"\x28\xb5\x2f\xfd", id="a magic number"),
        pytest.param(zlib.compress(b"{}"), id="zlib"),
    ],
)
def test_what_is_no_stream_is_refused(encoding, body):
    problem = refused(body, encoding=encoding)
    assert (problem.status, problem.reason) == (400, "bad_compression")


@pytest.mark.parametrize("form", FORMS)
def test_something_after_the_stream_is_refused(form):
    problem = refused(packed(form, b"{}") + b"more", encoding=form.split()[0])
    assert problem.reason == "bad_compression"


@pytest.mark.parametrize("form", FORMS)
def test_exactly_the_limit_passes_and_one_byte_more_does_not(form):
    encoding = form.split()[0]
    most = LIMITS.decompressed
    assert len(ask(packed(form, bytes(most)), encoding=encoding)) == most
    problem = refused(packed(form, bytes(most + 1)), encoding=encoding)
    assert (problem.status, problem.reason) == (413, "too_large")
    assert "limits.decompressed" in str(problem)
    joined = packed(form, bytes(most // 2), bytes(most // 2), b"x")
    assert refused(joined, encoding=encoding).status == 413


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([bytes(1 << 28)], id="one that unpacks to 256 MB"),
        pytest.param([b""] * 40_000, id="forty thousand that unpack to nothing"),
        pytest.param([b"x"] * 40_000, id="forty thousand of one byte"),
    ],
)
def test_a_bomb_costs_little(form, pieces):
    bomb = packed(form, *pieces)
    assert len(bomb) < LIMITS.body
    clock = SystemClock()
    started = clock.monotonic()
    problem = refused(bomb, encoding=form.split()[0])
    assert clock.monotonic() - started < 1.0
    assert problem.status in (400, 413)


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, zstd", "x" * 1000])
def test_other_encodings_are_named_with_what_works(encoding):
    problem = refused(b"{}", encoding=encoding)
    assert (problem.status, problem.reason) == (415, "unsupported_encoding")
    assert "gzip" in str(problem)
    assert len(str(problem)) < 200


@pytest.mark.parametrize(
    ("parts", "announced"),
    [
        pytest.param([b"x" * 500_001] * 2, None, id="counted as it comes"),
        pytest.param([], 1_000_001, id="announced, before a byte is read"),
    ],
)
def test_too_large_a_body_is_refused(parts, announced):
    problem = refused(*parts, announced=announced)
    assert (problem.status, problem.reason) == (413, "too_large")
    assert "limits.body" in str(problem)


def test_exactly_the_limit_is_not_too_large():
    assert len(ask(bytes(LIMITS.body), announced=LIMITS.body)) == LIMITS.body


def test_a_body_that_stops_half_way_times_out():
    hasty = body_limits(read_timeout_s=0.05)
    parts = [b'{"query":', b""]

    async def receive():
        if parts:
            return {"type": "http.request", "body": parts.pop(), "more_body": True}
        return await asyncio.get_running_loop().create_future()

    with pytest.raises(Problem) as caught:
        asyncio.run(read_body({"headers": []}, receive, hasty, MemoryReservation(AMPLE)))
    assert (caught.value.status, caught.value.reason) == (408, "read_timeout")
    assert caught.value.headers["connection"] == "close"


def test_a_client_that_leaves_is_not_an_error_of_ours():
    problem = refused(b'{"query":', leaves=True)
    assert (problem.status, problem.reason) == (400, "disconnected")


# ------------------------------------------------------------------- all bodies together


def test_bodies_under_way_are_bounded_together():
    budget = MemoryBudget(1_000)
    with budget.open() as first:
        assert len(ask(bytes(600), memory=first)) == 600
        with budget.open() as second:
            with pytest.raises(MemoryLimitError) as caught:
                ask(bytes(600), memory=second)
            problem = over_memory(caught.value)
            assert (problem.status, problem.reason) == (503, "memory")
            assert problem.headers["retry-after"]
            assert len(ask(bytes(300), memory=second)) == 300
    assert budget.reserved == 0


@pytest.mark.parametrize("form", FORMS)
def test_what_is_unpacked_counts_too(form):
    budget = MemoryBudget(1_000)
    with budget.open() as first, budget.open() as second:
        ask(bytes(500), memory=first)
        with pytest.raises(MemoryLimitError):
            ask(packed(form, bytes(900)), encoding=form.split()[0], memory=second)


def test_a_body_that_could_never_fit_is_told_so():
    with MemoryBudget(10).open() as memory, pytest.raises(MemoryLimitError) as caught:
        ask(bytes(600), memory=memory)
    problem = over_memory(caught.value)
    assert (problem.status, problem.reason) == (413, "too_large")
    assert "limits.memory" in str(problem)


# ----------------------------------------------------------------------------- headers


def scope(*headers: tuple[bytes, bytes], path="/v1/queries", query=b""):
    return {"headers": headers, "path": path, "query_string": query}


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(scope((b"cookie", b"x" * 1_100)), id="one long"),
        pytest.param(scope(*[(b"a", b"b")] * 300), id="many short"),
        pytest.param(scope(query=b"x" * 1_100), id="a long query string"),
        pytest.param(scope(path="/" + "x" * 1_100), id="a long path"),
    ],
)
def test_headers_are_bounded(asked):
    with pytest.raises(Problem) as caught:
        check_headers(asked, LIMITS)
    assert (caught.value.status, caught.value.reason) == (431, "headers_too_large")


def test_usual_headers_pass():
    check_headers(scope((b"host", b"ragmon"), (b"cookie", b"x" * 900)), LIMITS)


# ---- reads in turn --------------------------------------------------------------------------


def test_reads_beyond_the_limit_wait_for_a_turn():
    async def reads() -> list[str]:
        gate, order = ReadGate(1), []

        async def read(name: str) -> None:
            async with gate.turn():
                order.append(f"{name} begins")
                await asyncio.sleep(0)
                order.append(f"{name} ends")

        await asyncio.gather(read("a"), read("b"))
        return order

    assert asyncio.run(reads()) == ["a begins", "a ends", "b begins", "b ends"]


def test_a_read_that_gets_no_turn_is_refused_with_a_remedy():
    async def read() -> None:
        gate = ReadGate(1)
        async with gate.turn(), gate.turn(wait_s=0.01):
            pass

    with pytest.raises(Problem, match=r"limits\.reads") as refused:
        asyncio.run(read())
    assert (refused.value.status, refused.value.reason) == (503, "reads")
    assert refused.value.headers["retry-after"]


def test_a_read_that_fails_gives_its_turn_back():
    async def reads() -> None:
        gate = ReadGate(1)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                async with gate.turn(wait_s=0.01):
                    raise ZeroDivisionError

    asyncio.run(reads())
