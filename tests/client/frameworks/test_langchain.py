"""The callback on LangChain itself: `make frameworks` installs it."""

import asyncio

import pytest

from ragmon.client import Monitor, Options
from ragmon.client.fake import FakeServer

pytest.importorskip("langchain_core", reason="langchain-core is not installed: make frameworks")

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

from ragmon.client.langchain import RagmonCallback


class Shelf(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        if query == "Break":
            raise LookupError("no index")
        return [Document("Shipping is free.", id="kb-1"), Document("Else.", id="kb-2")]


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


def chain(model=None):
    prompt = ChatPromptTemplate.from_template("{context} {question}")
    model = model or FakeListChatModel(responses=["The council."])
    inputs = {"context": Shelf(), "question": RunnablePassthrough()}
    return inputs | prompt | model | StrOutputParser()


def check(record):
    assert record["query"] == "Who pays?"
    assert record["answer"] == "The council."
    assert [chunk["id"] for chunk in record["chunks"]] == ["kb-1", "kb-2"]
    assert record["chunks"][0]["text"] == "Shipping is free."
    assert record["latency_ms"].keys() == {"total", "retrieval", "generation"}
    assert record["pipeline"] == "shop"


def test_a_chain_is_a_query(server, monitor):
    callback = RagmonCallback(monitor, pipeline="shop")
    assert chain().invoke("Who pays?", config={"callbacks": [callback]}) == "The council."
    (record,) = records(server, monitor)
    check(record)


def test_chains_at_once_are_kept_apart(server, monitor):
    config = {"callbacks": [RagmonCallback(monitor, pipeline="shop")]}

    async def both():
        await asyncio.gather(*(chain().ainvoke("Who pays?", config=config) for _ in range(5)))

    asyncio.run(both())
    assert len(records(server, monitor)) == 5
    for record in server.records["queries"]:
        check(record)


def test_a_stream_has_its_whole_answer(server, monitor):
    config = {"callbacks": [RagmonCallback(monitor, pipeline="shop")]}
    assert "".join(chain().stream("Who pays?", config=config)) == "The council."
    (record,) = records(server, monitor)
    check(record)
    assert "retrieval_query" not in record


def test_dictionaries_messages_and_tokens(server, monitor):
    message = AIMessage(
        "So.",
        usage_metadata={"input_tokens": 7, "output_tokens": 2, "total_tokens": 9},
        response_metadata={"model_name": "small"},
    )
    model = GenericFakeChatModel(messages=iter([message]))
    step = RunnableLambda(lambda state: {"messages": [model.invoke(state["messages"])]})
    step.invoke(
        {"messages": [HumanMessage("Who?")]}, config={"callbacks": [RagmonCallback(monitor)]}
    )
    (record,) = records(server, monitor)
    assert (record["query"], record["answer"]) == ("Who?", "So.")
    assert record["tokens"] == {"prompt": 7, "completion": 2}
    assert record["model"] == "small"
    assert "chunks" not in record


def test_a_rewritten_question_is_not_the_users(server, monitor):
    rewrite = RunnableLambda(lambda inputs: Shelf().invoke(f"{inputs['question']} (rewritten)"))
    step = rewrite | RunnableLambda(lambda documents: {"answer": "So."})
    step.invoke({"question": "Who?"}, config={"callbacks": [RagmonCallback(monitor)]})
    (record,) = records(server, monitor)
    assert record["query"] == "Who?"
    assert record["retrieval_query"] == "Who? (rewritten)"


def test_a_failure_is_the_error_of_the_query(server, monitor):
    with pytest.raises(LookupError):
        chain().invoke("Break", config={"callbacks": [RagmonCallback(monitor)]})
    (record,) = records(server, monitor)
    assert record["query"] == "Break"
    assert record["error"] == "LookupError: no index"


def test_a_retriever_alone_is_a_query_and_a_model_alone_is_none(server, monitor):
    config = {"callbacks": [RagmonCallback(monitor)]}
    Shelf().invoke("Who?", config=config)
    FakeListChatModel(responses=["So."]).invoke("Who?", config=config)
    (record,) = records(server, monitor)
    assert record["query"] == "Who?"
    assert len(record["chunks"]) == 2
    assert "answer" not in record


def test_feedback_finds_the_query_by_the_id_of_the_run(server, monitor):
    run_id = "01890a5d-ac96-774b-bcce-b302099a8057"
    config = {"callbacks": [RagmonCallback(monitor)], "run_id": run_id}
    chain().invoke("Who pays?", config=config)
    assert [record["query_id"] for record in records(server, monitor)] == [run_id]
