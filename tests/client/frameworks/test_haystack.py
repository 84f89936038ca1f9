"""The component in a pipeline of Haystack itself: `make frameworks` installs it."""

import os

import pytest

from ragmon.client import Monitor, Options
from ragmon.client.clock import ProcessClock
from ragmon.client.fake import FakeServer

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
pytest.importorskip("haystack", reason="haystack-ai is not installed: make frameworks")

from haystack import Document, Pipeline, component
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore

from ragmon.client.haystack import QueryLogger


@component
class Texts:
    @component.output_types(replies=list[str])
    def run(self, documents: list[Document]):
        return {"replies": [f"{len(documents)} found."]}


@component
class Messages:
    @component.output_types(replies=list[ChatMessage])
    def run(self, documents: list[Document]):
        return {"replies": [ChatMessage.from_assistant(f"{len(documents)} found.")]}


@pytest.mark.parametrize("generator", [Texts, Messages])
def test_a_run_of_a_pipeline_is_a_query(generator):
    store = InMemoryDocumentStore()
    store.write_documents([Document(id="kb-1", content="Shipping is free.")])
    with FakeServer() as server:
        monitor = Monitor(server.url, options=Options(flush_interval_s=1000.0))
        pipeline = Pipeline()
        pipeline.add_component("retriever", InMemoryBM25Retriever(store))
        pipeline.add_component("llm", generator())
        pipeline.add_component("ragmon", QueryLogger(monitor, pipeline="shop"))
        pipeline.connect("retriever.documents", "llm.documents")
        pipeline.connect("retriever.documents", "ragmon.documents")
        pipeline.connect("llm.replies", "ragmon.replies")
        inputs = {"query": "shipping"}
        result = pipeline.run(
            {"retriever": inputs, "ragmon": {**inputs, "started": ProcessClock().now() - 1.0}}
        )
        monitor.close()
        (record,) = server.records["queries"]
    assert result["ragmon"]["query_id"] == record["query_id"]
    assert (record["query"], record["answer"]) == ("shipping", "1 found.")
    assert record["chunks"][0]["id"] == "kb-1"
    assert record["chunks"][0]["text"] == "Shipping is free."
    assert record["chunks"][0]["score"] > 0.0
    assert record["latency_ms"] >= 1000.0
    assert record["pipeline"] == "shop"
