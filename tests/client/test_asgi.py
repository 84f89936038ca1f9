"""The middleware around applications of Starlette, and around bare ones."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ragmon.client import Monitor, Options
from ragmon.client.asgi import QueryMiddleware
from ragmon.client.context import current_query
from ragmon.client.fake import FakeServer

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def ask(request):
    """In the thread pool, as of a plain function."""
    query = current_query()
    query.asked(request.query_params["q"])
    with query.retrieval():
        query.retrieved([{"id": "a", "score": 0.5}])
    query.answered("So.", citations=["a"])
    return PlainTextResponse(query.query_id)


async def fail(request):
    current_query().asked("Why?")
    if "raise" in request.query_params:
        raise RuntimeError("no index")
    return Response(status_code=503)


async def health(_request):
    return PlainTextResponse("ok")


ROUTES = [Route("/ask", ask), Route("/fail", fail), Route("/health", health)]


async def call(application, path, query="", headers=()):
    """The status and the body of one request."""
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": query.encode(),
        "headers": list(headers),
    }
    messages = []

    async def receive():
        return {"type": "http.request", "body": b""}

    async def send(message):
        messages.append(message)

    await application(scope, receive, send)
    return messages[0]["status"], b"".join(m.get("body", b"") for m in messages).decode()


async def live(application):
    """What an application answers to the start and the end of a server."""
    messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
    answers = []

    async def receive():
        return next(messages)

    async def send(message):
        answers.append(message["type"])

    await application({"type": "lifespan"}, receive, send)
    return answers


@pytest.fixture
def server():
    with FakeServer() as fake:
        yield fake


@pytest.fixture
def monitor(server):
    with Monitor(server.url, options=Options(flush_interval_s=1000.0)) as monitor:
        yield monitor


def test_a_request_is_a_query(server, monitor):
    application = QueryMiddleware(Starlette(routes=ROUTES), monitor, pipeline="shop")
    parent = f"00-{TRACE}-00f067aa0ba902b7-01".encode()

    async def both():
        headers = [(b"traceparent", parent)]
        return await asyncio.gather(
            call(application, "/ask", "q=Who%3F", headers), call(application, "/ask", "q=What%3F")
        )

    answers = asyncio.run(both())
    monitor.flush()
    records = {record["query"]: record for record in server.records["queries"]}
    assert [status for status, _ in answers] == [200, 200]
    assert [records["Who?"]["query_id"], records["What?"]["query_id"]] == [b for _, b in answers]
    record = records["Who?"]
    assert record["answer"] == "So."
    assert record["pipeline"] == "shop"
    assert record["trace_id"] == TRACE
    assert "trace_id" not in records["What?"]
    assert record["latency_ms"].keys() == {"total", "retrieval"}
    assert record["chunks"] == [{"id": "a", "score": 0.5}]


def test_a_request_that_records_nothing_is_no_query(server, monitor):
    application = QueryMiddleware(Starlette(routes=ROUTES), monitor)
    assert asyncio.run(call(application, "/health")) == (200, "ok")
    monitor.flush()
    assert server.records["queries"] == []


@pytest.mark.parametrize(
    ("query", "error"), [("", "HTTP 503"), ("raise=1", "RuntimeError: no index")]
)
def test_a_failure_is_the_error_of_the_query(server, monitor, query, error):
    application = QueryMiddleware(Starlette(routes=ROUTES), monitor)
    try:
        asyncio.run(call(application, "/fail", query))
    except RuntimeError:
        assert query
    monitor.flush()
    assert [record["error"] for record in server.records["queries"]] == [error]


def test_outside_of_a_request_nothing_is_logged(server, monitor):
    current_query().asked("lost")
    with current_query() as query:
        query.answered("lost")
    monitor.flush()
    assert server.records["queries"] == []


def test_the_end_of_the_server_delivers_after_the_end_of_the_application(server, monitor):
    events = []

    @asynccontextmanager
    async def lifespan(_app):
        events.append("start")
        yield
        monitor.log_query("last")
        events.append("end")

    application = QueryMiddleware(Starlette(lifespan=lifespan), monitor)
    answers = asyncio.run(live(application))
    assert events == ["start", "end"]
    assert answers == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert [record["query"] for record in server.records["queries"]] == ["last"]


def test_an_application_that_knows_no_lifespan_gets_one(server, monitor):
    async def bare(scope, _receive, _send):
        assert scope["type"] == "http"

    monitor.log_query("last")
    answers = asyncio.run(live(QueryMiddleware(bare, monitor)))
    assert answers == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert [record["query"] for record in server.records["queries"]] == ["last"]


def test_a_failing_start_stays_one(monitor):
    async def broken(_scope, receive, _send):
        await receive()
        raise RuntimeError("no index")

    with pytest.raises(RuntimeError, match="no index"):
        asyncio.run(live(QueryMiddleware(broken, monitor)))
