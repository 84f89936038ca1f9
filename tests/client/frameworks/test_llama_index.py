"""The handler on LlamaIndex itself: `make frameworks` installs it."""

import asyncio

import pytest

from ragmon.client import Monitor, Options
from ragmon.client.fake import FakeServer

pytest.importorskip("llama_index.core", reason="llama-index-core is not installed: make frameworks")

from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode

from ragmon.client.llama_index import RagmonEvents


class Shelf(BaseRetriever):
    def _retrieve(self, query_bundle):
        if query_bundle.query_str == "Break":
            raise LookupError("no index")
        node = TextNode(id_="kb-1", text="Shipping is free.")
        return [NodeWithScore(node=node, score=0.83)]


@pytest.fixture
def server():
    with FakeServer() as fake:
        yield fake


@pytest.fixture
def monitor(server):
    with Monitor(server.url, options=Options(flush_interval_s=1000.0)) as monitor:
        handler = RagmonEvents(monitor, pipeline="shop")
        dispatcher = get_dispatcher()
        dispatcher.add_event_handler(handler)
        yield monitor
        dispatcher.event_handlers.remove(handler)


def engine(**options):
    return RetrieverQueryEngine.from_args(Shelf(), llm=MockLLM(max_tokens=8), **options)


def records(server, monitor):
    monitor.flush()
    return server.records["queries"]


def check(record, answer):
    assert record["query"] == "Who pays?"
    assert record["answer"] == answer
    assert record["chunks"] == [{"id": "kb-1", "score": 0.83, "text": "Shipping is free."}]
    assert record["latency_ms"].keys() == {"total", "retrieval", "generation"}
    assert record["pipeline"] == "shop"


def test_a_query_of_an_engine_is_a_query(server, monitor):
    response = engine().query("Who pays?")
    (record,) = records(server, monitor)
    check(record, response.response)


def test_queries_at_once_are_kept_apart(server, monitor):
    async def both():
        return await asyncio.gather(*(engine().aquery("Who pays?") for _ in range(3)))

    responses = asyncio.run(both())
    assert len(records(server, monitor)) == 3
    for record in server.records["queries"]:
        check(record, responses[0].response)


def test_a_failure_is_the_error_of_the_query_and_the_next_one_is_logged(server, monitor):
    with pytest.raises(LookupError):
        engine().query("Break")
    engine().query("Who pays?")
    failed, record = records(server, monitor)
    assert failed["query"] == "Break"
    assert "no index" in failed["error"]
    assert "error" not in record


def test_the_answer_of_a_stream_is_not_known_and_left_out(server, monitor):
    engine(streaming=True).query("Who pays?")
    (record,) = records(server, monitor)
    assert "answer" not in record
    assert record["chunks"][0]["id"] == "kb-1"
