"""Decorated functions of every kind."""

import asyncio
import inspect
from types import SimpleNamespace

import pytest

from ragmon.client import Monitor, Options
from ragmon.client.context import current_query
from ragmon.client.decorator import logged
from ragmon.client.fake import FakeServer


@pytest.fixture
def server():
    with FakeServer() as fake:
        yield fake


@pytest.fixture
def monitor(server):
    with Monitor(server.url, options=Options(flush_interval_s=1000.0)) as monitor:
        yield monitor


def records(server, monitor):
    monitor.flush()
    return server.records["queries"]


def test_a_call_is_a_query_and_its_question_is_no_other_argument(server, monitor):
    @logged(monitor, pipeline="shop")
    def ask(question, model="small"):
        """Answer."""
        return f"{model}: so."

    assert ask("Who pays?", model="gpt-4o") == "gpt-4o: so."
    assert ask(model="large", question="What now?") == "large: so."
    assert (ask.__name__, ask.__doc__) == ("ask", "Answer.")
    assert list(inspect.signature(ask).parameters) == ["question", "model"]
    first, second = records(server, monitor)
    assert (first["query"], first["answer"]) == ("Who pays?", "gpt-4o: so.")
    assert (second["query"], second["answer"]) == ("What now?", "large: so.")
    assert first["pipeline"] == "shop"
    assert first["latency_ms"]["total"] >= 0.0


def test_a_method_has_the_question_and_not_its_object(server, monitor):
    class Assistant:
        @logged(monitor)
        def ask(self, text):
            return "So."

    Assistant().ask("Who?")
    assert [record["query"] for record in records(server, monitor)] == ["Who?"]


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(("So.", [("a", 0.5)]), id="a pair"),
        pytest.param({"answer": "So.", "documents": [("a", 0.5)]}, id="a dictionary"),
        pytest.param(SimpleNamespace(response="So.", source_nodes=[("a", 0.5)]), id="an object"),
        pytest.param((SimpleNamespace(content="So."), [("a", 0.5)]), id="a message"),
    ],
)
def test_answer_and_documents_are_read_from_the_result(server, monitor, result):
    @logged(monitor)
    def ask(question):
        return result

    assert ask("Who?") is result
    (record,) = records(server, monitor)
    assert record["answer"] == "So."
    assert record["chunks"] == [{"id": "a", "score": 0.5}]


def test_what_is_recorded_inside_comes_first(server, monitor):
    def search():
        with current_query().retrieval():
            current_query().retrieved([{"id": "inside"}])

    @logged(monitor)
    def ask(question):
        search()
        return {"answer": "So.", "documents": [{"id": "outside"}], "sources": 3}

    ask("Who?")
    (record,) = records(server, monitor)
    assert record["chunks"] == [{"id": "inside"}]
    assert record["answer"] == "So."
    assert "retrieval" in record["latency_ms"]


def test_an_exception_passes_and_is_the_error(server, monitor):
    @logged(monitor)
    def ask(question):
        raise LookupError("no index")

    with pytest.raises(LookupError):
        ask("Who?")
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        ask()
    errors = [record["error"] for record in records(server, monitor)]
    assert errors[0] == "LookupError: no index"


def test_coroutines_at_once_are_kept_apart(server, monitor):
    @logged(monitor)
    async def ask(question):
        await asyncio.sleep(0)
        current_query().retrieved([{"id": question}])
        return f"{question}!"

    async def both():
        return await asyncio.gather(ask("a"), ask("b"))

    assert asyncio.run(both()) == ["a!", "b!"]
    assert inspect.iscoroutinefunction(ask)
    for record in records(server, monitor):
        assert record["answer"] == f"{record['query']}!"
        assert record["chunks"] == [{"id": record["query"]}]


def test_the_pieces_of_a_stream_make_the_answer(server, monitor):
    @logged(monitor)
    def ask(question):
        current_query().retrieved([{"id": "a"}])
        yield "So"
        yield SimpleNamespace(content=" it is")
        yield "."

    stream = ask("Who?")
    assert next(stream) == "So"
    current_query().answered("of the reader, who is outside")
    assert len(list(stream)) == 2
    (record,) = records(server, monitor)
    assert record["answer"] == "So it is."
    assert record["chunks"] == [{"id": "a"}]


def test_a_reader_who_stops_is_no_error(server, monitor):
    @logged(monitor)
    async def ask(question):
        yield "So"
        yield " on."

    async def first():
        stream = ask("Who?")
        try:
            async for piece in stream:
                return piece
        finally:
            await stream.aclose()

    assert asyncio.run(first()) == "So"
    (record,) = records(server, monitor)
    assert record["answer"] == "So"
    assert "error" not in record


def test_a_stream_that_fails_has_the_error_and_what_came_before(server, monitor):
    @logged(monitor)
    def ask(question):
        yield "So"
        raise TimeoutError("model")

    with pytest.raises(TimeoutError):
        list(ask("Who?"))
    (record,) = records(server, monitor)
    assert (record["answer"], record["error"]) == ("So", "TimeoutError: model")


def test_no_parameter_is_guessed(monitor):
    with pytest.raises(ValueError, match=r"name one: logged\(monitor, question=…\)"):

        @logged(monitor)
        def handle(tenant, body):
            return ""

    with pytest.raises(ValueError, match="handle"):

        @logged(monitor, question="mistyped")
        def handle(question):
            return ""


def test_the_parameter_may_be_named(server, monitor):
    @logged(monitor, question="body")
    def handle(tenant, body):
        return "So."

    handle("acme", "Who?")
    assert [record["query"] for record in records(server, monitor)] == ["Who?"]
