"""What spans of each convention come to, in the shapes that instrumentations send."""

import json

import pytest

from ragmon.embedding_sketch import sketch
from ragmon.event_time import Bounds
from ragmon.sources.otlp import conventions as conventions_package
from ragmon.sources.otlp.conventions import conventions
from ragmon.sources.otlp.reading.values import resource_of
from ragmon.sources.otlp.receiver.results import Results
from ragmon.sources.otlp.receiver.targets import Targets
from ragmon.sources.otlp.spans import ERROR, DecodedSpans, Event, drop_bulk
from ragmon.sources.otlp.traces.mapping import map_trace
from tests.support.otlp import NOW, TRACE, span
from tests.support.otlp_spans import KIND, OP, record_of, retriever, root

VECTOR = "embedding.embeddings.{}.embedding.vector"


def test_long_names_are_not_remembered():
    before = conventions_package._cached_understood.cache_info().currsize
    for at in range(20):
        names = {f"llm.{at}.{part}" + "x" * 240: 1 for part in range(50)}
        conventions_package.read(span(at, attributes=names))
    assert conventions_package._cached_understood.cache_info().currsize == before


ODD = pytest.mark.parametrize("odd", [["chat"], {"a": 1}, 5, True, 1.5, []], ids=repr)


@ODD
def test_an_operation_that_is_no_text_costs_nothing(odd):
    read = record_of(
        root(**{"input.value": "How?", "output.value": "So."}),
        span(2, 1, {"traceloop.span.kind": "task", OP: odd}),
    )
    assert (read.query, read.answer) == ("How?", "So.")


@ODD
def test_a_part_of_a_message_that_is_no_text_costs_nothing(odd):
    messages = {
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.contents.0.message_content.text": odd,
        "llm.output_messages.0.message.contents.1.message_content.text": "So.",
    }
    read = record_of(root(**{"input.value": "How?"}), span(2, 1, {KIND: "LLM", **messages}))
    assert read.query == "How?"
    assert read.answer.endswith("So.")


def test_each_convention_is_found():
    names = {module.__name__.rpartition(".")[2] for module in conventions()}
    assert names == {
        "aws",
        "genai",
        "haystack",
        "langfuse",
        "langsmith",
        "llamaindex",
        "mastra",
        "mlflow",
        "monocle",
        "openinference",
        "pydantic_ai",
        "spring",
        "traceloop",
        "vectordb",
        "vercel",
    }
    orders = [module.ORDER for module in conventions()]
    assert orders == sorted(set(orders))


def test_nested_retrievers_count_once():
    inner = retriever(3, 2, **{"output.value": "[]"})
    outer = retriever(2, 1, **{"output.value": '[{"id": "a", "text": "t"}]'})
    assert [c.id for c in record_of(root(), outer, inner).chunks] == ["a"]
    hollow = retriever(2, 1, **{"output.value": "[]"})
    full = retriever(3, 2, **{"output.value": '[{"id": "b", "text": "t"}]'})
    assert [c.id for c in record_of(root(), hollow, full).chunks] == ["b"]


def test_parallel_retrievers_add_up_but_their_time_does_not():
    one = retriever(2, 1, **{"output.value": '[{"id": "a", "text": "t"}]'})
    two = retriever(4, 1, **{"output.value": '[{"id": "a", "text": "t"}]'})
    record = record_of(root(), two, one)
    assert [chunk.id for chunk in record.chunks] == ["a", "a"]
    assert record.latency_ms.retrieval == pytest.approx(12.0)  # 2 to 12 and 4 to 14


def test_a_reranker_orders_what_was_retrieved():
    found = '[{"id": "a", "score": 0.9, "text": "x"}, {"id": "b", "score": 0.8, "text": "y"}]'
    reranker = {
        KIND: "RERANKER",
        "reranker.output_documents.0.document.id": "b",
        "reranker.output_documents.0.document.score": 7.1,
    }
    record = record_of(root(), retriever(**{"output.value": found}), span(3, 1, reranker))
    assert [(chunk.id, chunk.score) for chunk in record.chunks] == [("b", 0.8), ("a", 0.9)]


@pytest.mark.parametrize(
    ("tool", "returned", "ids"),
    [
        ("lookup", json.dumps({"type": "tool", "data": {"content": "t", "artifact": [
            {"id": "a", "page_content": "t", "metadata": {}}]}}), ["a"]),
        ("search_docs", "Some text that was found.", ["text-"]),
        ("send_mail", "Sent.", None),
    ],
    ids=["documents", "text of a search", "another tool"],
)  # fmt: skip
def test_agents_retrieve_by_tools(tool, returned, ids):
    called = {KIND: "TOOL", "tool.name": tool, "output.value": returned}
    model = {KIND: "LLM", "llm.output_messages.0.message.role": "assistant",
             "llm.output_messages.0.message.content": "because"}  # fmt: skip
    record = record_of(root(), span(2, 1, called), span(3, 1, model))
    chunks = record.chunks and [chunk.id[: len(ids[0])] for chunk in record.chunks]
    assert chunks == ids


MODEL_SPANS = {
    "OpenInference": {
        KIND: "LLM", "llm.model_name": "m-1", "llm.token_count.prompt": 7,
        "llm.token_count.completion": 3, "llm.cost.total": 0.5,
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "Context: c\nQuery: why?\nAnswer: ",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content":
        "[[ ## answer ## ]]\nbecause\n\n[[ ## completed ## ]]",
    },
    "OpenInference, content in parts": {
        KIND: "LLM", "llm.model_name": "m-1", "llm.token_count.prompt": 7,
        "llm.token_count.completion": 3, "llm.cost.total": 0.5,
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.contents.0.message_content.text": "why?",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.contents.0.message_content.text": "because",
    },
    "Langfuse": {
        "langfuse.observation.type": "generation", "langfuse.observation.model.name": "m-1",
        "langfuse.observation.usage_details": '{"input": 7, "output": 3, "total": 10}',
        "langfuse.observation.cost_details": '{"input": 0.2, "output": 0.3}',
        "langfuse.observation.input": '[{"role": "user", "content": "why?"}]',
        "langfuse.observation.output": '{"role": "assistant", "content": "because"}',
    },
    "MLflow": {
        "mlflow.spanType": '"CHAT_MODEL"', "mlflow.llm.model": '"m-1"',
        "mlflow.chat.tokenUsage": '{"input_tokens": 7, "output_tokens": 3}',
        "mlflow.llm.cost": '{"total_cost": 0.5}',
        "mlflow.spanInputs": '{"messages": [{"role": "user", "content": "why?"}]}',
        "mlflow.spanOutputs":
        '{"choices": [{"message": {"role": "assistant", "content": "because"}}]}',
    },
    "Vercel AI SDK": {
        "ai.operationId": "ai.generateText.doGenerate", "ai.model.id": "m-1",
        "ai.usage.promptTokens": 7, "ai.usage.completionTokens": 3, "gen_ai.usage.cost": 0.5,
        "ai.prompt": '{"messages": [{"role": "user", "content": "why?"}]}',
        "ai.response.text": "because",
    },
    "GenAI as it is": {
        OP: "chat", "gen_ai.response.model": "m-1", "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3, "gen_ai.usage.cost": 0.5,
        "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "why?"}]}],
        "gen_ai.output.messages": [
            {"role": "assistant", "parts": [{"type": "text", "content": "because"}]}],
    },
    "GenAI as it was": {
        OP: "chat", "gen_ai.request.model": "m-1", "gen_ai.usage.prompt_tokens": "7",
        "gen_ai.usage.completion_tokens": "3", "gen_ai.usage.cost": 0.5,
        "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "why?",
        "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": "because",
    },
}  # fmt: skip


@pytest.mark.parametrize("attributes", MODEL_SPANS.values(), ids=MODEL_SPANS)
def test_model_calls(attributes):
    record = record_of(span(1, 0, {}), span(2, 1, attributes))
    assert (record.query, record.answer, record.model) == ("why?", "because", "m-1")
    assert (record.tokens.prompt, record.tokens.completion) == (7, 3)
    assert record.cost_usd == pytest.approx(0.5)
    assert record.chunks is None


def test_a_call_whose_steps_were_not_recorded():
    said = {"ai.prompt": '{"prompt": "why?"}', "ai.response.text": "because", "ai.model.id": "m-1"}
    tokens = {"ai.usage.inputTokens": 7, "ai.usage.outputTokens": 3}
    whole = {"ai.operationId": "ai.generateText", **said, **tokens}
    record = record_of(span(1, 0, {}), span(2, 1, whole))
    assert (record.query, record.answer, record.model) == ("why?", "because", "m-1")
    assert (record.tokens.prompt, record.tokens.completion) == (7, 3)


PROMPT = "Passages: a b c\n\nAsked by the user: why?\n\nBe short."


@pytest.mark.parametrize(
    ("asked", "query", "rewritten"),
    [
        pytest.param("why?", "why?", None, id="the question stands in the prompt"),
        pytest.param("reason", PROMPT, "reason", id="it does not"),
    ],
)
def test_the_question_in_a_prompt_is_what_was_embedded(asked, query, rewritten):
    embedding = {"ai.operationId": "ai.embed", "ai.value": json.dumps(asked)}
    call = {"ai.operationId": "ai.generateText.doGenerate", "ai.response.text": "because"}
    call["ai.prompt.messages"] = json.dumps([{"role": "user", "content": PROMPT}])
    record = record_of(span(1, 0, {}), span(2, 1, embedding), span(3, 1, call))
    assert (record.query, record.retrieval_query) == (query, rewritten)


def test_a_question_of_two_is_not_cut_to_what_was_looked_up_first():
    question = "why? and when?"
    steps = [retriever(2, **{"input.value": "why?"}), retriever(3, **{"input.value": "when?"})]
    record = record_of(root(**{"input.value": question}), *steps)
    assert (record.query, record.retrieval_query) == (question, "why?\nwhen?")


NO_SEARCH = ("getWeather", "readStorage")


@pytest.mark.parametrize(
    ("tool", "result", "expected"),
    [
        pytest.param("searchDocs", "[]", [], id="nothing"),
        pytest.param("searchDocs", '{"results": []}', [], id="nothing, named"),
        pytest.param("searchDocs", '["a", "b"]', ["a", "b"], id="texts"),
        pytest.param("searchDocs", '"a and b"', ["a and b"], id="one text"),
        pytest.param("searchDocs", None, None, id="not recorded"),
        pytest.param("getWeather", '{"text": "cold"}', None, id="no search"),
        pytest.param("getWeather", "[]", None, id="no search, an empty list"),
        pytest.param("readStorage", '"cold"', None, id="no search, only letters of one"),
        pytest.param("askKB", '"a and b"', ["a and b"], id="a word of its own"),
        pytest.param("getWeather", '[{"content": "a", "score": 1}]', ["a"], id="documents"),
        pytest.param("getWeather", '[{"name": "a", "similarity": 1}]', ["a"], id="scored texts"),
    ],
)
def test_what_tools_found(tool, result, expected):
    called = {OP: "execute_tool", "gen_ai.tool.name": tool, "gen_ai.tool.call.result": result}
    called["gen_ai.tool.call.arguments"] = '{"query": "reason"}'
    record = record_of(root(**{"input.value": "why?"}), span(2, 1, called), model())
    assert (None if record.chunks is None else [each.text for each in record.chunks]) == expected
    assert (record.latency_ms.retrieval is None) == (tool in NO_SEARCH and not expected)


def model():
    return span(9, 1, {OP: "chat", "gen_ai.request.model": "m-1"})


def test_an_answer_in_an_object():
    said = [{"role": "assistant", "parts": [{"type": "text", "content": '{"answer": "because"}'}]}]
    chat = span(1, 0, {OP: "chat", "gen_ai.output.messages": json.dumps(said)})
    assert record_of(chat).answer == "because"


def test_spans_that_miss_an_unexported_parent_are_one_query():
    def call(number, question, answer):
        said = {"ai.prompt": json.dumps({"prompt": question}), "ai.response.text": answer}
        step = {"ai.operationId": "ai.generateText.doGenerate", "ai.response.text": answer}
        whole = span(number, 99, {"ai.operationId": "ai.generateText", **said})
        return whole, span(10 + number, number, step)

    embedding = span(1, 99, {"ai.operationId": "ai.embed", "ai.value": '"why?"'})
    record = record_of(embedding, *call(2, "why?", "rewritten"), *call(3, "reasons", "because"))
    assert (record.query, record.answer) == ("why?", "because")


def test_what_raised_goes_before_what_was_marked():
    raised = (Event("exception", 1, {"exception.type": "Error", "exception.message": "no index"}),)
    tool = span(2, 1, {KIND: "TOOL"}, status=ERROR, events=raised)
    record = record_of(
        span(1, 0, {KIND: "CHAIN"}, status=ERROR), tool, span(3, 1, {KIND: "LLM"}, status=ERROR)
    )
    assert record.error == "tool: Error: no index"


@pytest.mark.parametrize(
    ("found", "texts"),
    [
        pytest.param('["one \n line", "two"]', ["one \n line", "two"], id="as JSON"),
        pytest.param('["say "hi" now", "two"]', ['say "hi" now', "two"], id="not escaped"),
        pytest.param(None, None, id="not recorded"),
    ],
)
def test_spring_ai(found, texts):
    client = {"spring.ai.kind": "chat_client", OP: "framework"}
    client["spring.ai.chat.client.conversation.id"] = "s-1"
    search = {"spring.ai.kind": "vector_store", "db.system": "pg_vector"}
    search |= {"db.operation.name": "query", "db.vector.query.content": "why?"}
    search["db.vector.query.response.documents"] = found
    chat = {OP: "chat", "gen_ai.system": "openai", "gen_ai.response.model": "m-1"}
    chat["gen_ai.prompt"] = '["Be brief.", "why?\n\nContext information is below.\n a "b""]'
    chat["gen_ai.completion"] = '["because"]'
    record = record_of(
        span(1, 0, {"http.route": "/ask"}),
        span(2, 1, client),
        span(3, 2, {key: value for key, value in search.items() if value is not None}),
        span(4, 2, {"spring.ai.kind": "vector_store", "db.operation.name": "add"}),
        span(5, 2, chat),
    )
    assert (record.query, record.answer, record.model) == ("why?", "because", "m-1")
    assert (record.session_id, record.retrieval_query) == ("s-1", None)
    assert (record.chunks and [each.text for each in record.chunks]) == texts


def test_a_conversation_that_spring_ai_names_for_lack_of_one():
    client = {"spring.ai.kind": "chat_client", "spring.ai.chat.client.conversation.id": "default"}
    assert record_of(span(1, 0, client), retriever()).session_id is None


def test_micrometers_word_for_no_answer_is_no_model():
    failed = {OP: "chat", "gen_ai.request.model": "m-1", "gen_ai.response.model": "none"}
    call = span(2, 1, failed, status=ERROR, message="400: overloaded")
    assert record_of(root(), call).model == "m-1"


def test_numbered_results_of_a_vector_database():
    key = "db.vector.query.result"
    found = {f"{key}.0.id": "d1", f"{key}.0.score": 0.9, f"{key}.1.id": "d2", f"{key}.1.score": 0.4}
    events = (Event("pinecone.query.result.1.metadata", 1, {"text": "two"}),)
    query = span(2, 1, {"db.system": "Pinecone", **found}, name="pinecone.query", events=events)
    chunks = record_of(root(), query).chunks
    assert [(each.id, each.score, each.text) for each in chunks] == [
        ("d1", 0.9, None),
        ("d2", 0.4, "two"),
    ]
    none = {"db.system": "Qdrant", f"{key}.matches_length": 0}
    assert record_of(root(), span(2, 1, none, name="qdrant.search")).chunks == []


def test_a_reranker_that_was_translated_into_a_model():
    given = [json.dumps({"id": each, "text": each}) for each in ("a", "b")]
    ranking = ['{"index": 1, "relevanceScore": 0.9}', '{"index": 0, "relevanceScore": 0.2}']
    rerank = {KIND: "LLM", OP: "rerank", "ai.documents": given, "ai.ranking": ranking}
    record = record_of(root(), span(2, 1, rerank))
    assert [each.id for each in record.chunks] == ["b", "a"]
    assert record.latency_ms.generation is None


def test_messages_in_events():
    events = (
        Event("gen_ai.user.message", 1, {"content": "why?"}),
        Event("gen_ai.choice", 2, {"message": '{"role": "assistant", "content": "because"}'}),
    )
    record = record_of(span(1, 0, {OP: "chat"}, events=events))
    assert (record.query, record.answer) == ("why?", "because")


def test_nested_model_calls_count_once():
    tokens = {"llm.token_count.prompt": 7, "llm.token_count.completion": 3}
    inner = {KIND: "LLM", **tokens, "output.value": "because"}
    record = record_of(root(), span(2, 1, {KIND: "LLM", **tokens}), span(3, 2, inner))
    assert (record.tokens.prompt, record.tokens.completion) == (7, 3)
    assert record.answer == "because"


def test_dual_emission_counts_once():
    both = {**MODEL_SPANS["OpenInference"], **MODEL_SPANS["GenAI as it is"]}
    record = record_of(root(), span(2, 1, both))
    assert (record.tokens.prompt, record.answer) == (7, "because")


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"session.id": "s", "user.id": "u"}, ("s", "u")),
        ({"gen_ai.conversation.id": "s", "enduser.id": "u"}, ("s", "u")),
        ({"traceloop.association.properties.thread_id": "s",
          "traceloop.association.properties.user_id": "u"}, ("s", "u")),
        ({"langfuse.session.id": "s", "langfuse.user.id": "u"}, ("s", "u")),
        ({"ai.telemetry.metadata.sessionId": "s", "ai.telemetry.metadata.userId": "u"},
         ("s", "u")),
    ],
)  # fmt: skip
def test_who_asked(attributes, expected):
    record = record_of(span(1, 0, attributes), retriever())
    assert (record.session_id, record.user_id) == expected
    assert (record.pipeline, record.version, record.environment) == ("shop", "1.2", "prod")


@pytest.mark.parametrize(
    ("text", "more", "has_one"),
    [
        pytest.param("why?", {}, True, id="of the question"),
        pytest.param("because", {}, False, id="of another text"),
        pytest.param("why?", {VECTOR.format(1): [0.5] * 384}, False, id="of several texts"),
    ],
)
def test_the_vector_of_the_question_is_kept_as_a_sketch(text, more, has_one):
    embedding = {
        KIND: "EMBEDDING",
        "embedding.embeddings.0.embedding.text": text,
        VECTOR.format(0): [0.25, -0.5] * 192,
        **more,
    }
    drop_bulk(embedding, DecodedSpans([]))
    record = record_of(
        root(**{"input.value": "why?", "output.value": "so"}), retriever(), span(3, 2, embedding)
    )
    assert record.embedding_sketch == (sketch([0.25, -0.5] * 192) if has_one else None)
    assert not any(isinstance(value, list) for value in embedding.values())


@pytest.mark.parametrize(
    "attributes",
    [
        {KIND: "EMBEDDING", "embedding.embeddings.0.embedding.text": "a"},
        {OP: "embeddings"},
        {"http.request.method": "GET"},
        {KIND: "EVALUATOR", "annotations.0.annotation.name": "x"},
        {"db.system": "chroma", "db.operation": "add"},
        {"db.system": "postgresql", "db.operation": "query"},
        {KIND: "CHAIN", "input.value": '{"documents": ["a"]}', "output.value": '{"written": 3}'},
    ],
)
def test_what_is_no_query(attributes):
    assert map_trace([span(1, 0, {}), span(2, 1, attributes)], NOW).queries == ()


def test_a_failure_that_was_survived_is_no_error():
    failed = retriever(2, 1)
    again = retriever(3, 1, **{"output.value": '[{"id": "a", "text": "t"}]'})
    broken = span(2, 1, failed.attributes, status=ERROR)
    record = record_of(root(), broken, again)
    assert (record.error, len(record.chunks)) == (None, 1)


def test_the_deepest_failure_says_where():
    boom = Event("exception", 1, {"exception.type": "app.errors.Slow", "exception.message": "10 s"})
    broken = span(2, 1, {KIND: "RETRIEVER"}, status=ERROR, events=(boom,))
    record = record_of(span(1, 0, {KIND: "CHAIN"}, status=ERROR, message="failed"), broken)
    assert record.error == "retriever: Slow: 10 s"
    assert record.chunks is None


def test_two_roots_are_two_queries():
    spans = [root(), retriever(), span(5, 0, {KIND: "CHAIN"}), retriever(6, 5)]
    ids = [each.record.query_id for each in map_trace(spans, NOW).queries]
    assert ids == [f"{TRACE.hex()}:{number:016x}" for number in (1, 5)]


def test_children_without_their_root_are_one_query():
    found = '[{"id": "a", "text": "t"}]'
    model = span(3, 9, MODEL_SPANS["GenAI as it is"])
    record = record_of(retriever(2, 9, **{"output.value": found, "input.value": "why?"}), model)
    assert (record.query, record.answer, len(record.chunks)) == ("why?", "because", 1)
    assert record.query_id == TRACE.hex()


def test_circles_show_among_what_is_refused():
    results = Results(Targets(), NOW, Bounds(0.0, NOW + 1.0))
    results.add([retriever(1, 2), retriever(2, 1)])
    assert results.refused == {"parent_cycle": 1}
    assert len(results.records) == 1  # the query itself is kept


@pytest.mark.parametrize(
    ("operation", "field"),
    [
        pytest.param("RETRIEVER", "retrieval", id="a retriever"),
        pytest.param("retrieval", "retrieval", id="the convention's own name"),
        pytest.param("generate_content", "generation", id="a model"),
    ],
)
def test_types_that_mlflow_passes_on_as_operations(operation, field):
    spans = span(1, 0, {OP: "CHAIN"}), span(2, 1, {OP: operation})
    assert getattr(record_of(*spans).latency_ms, field) == 10.0


def test_tags_of_mlflow_may_name_the_session():
    tags = {"mlflow.traceTag.session_id": "s-1", "mlflow.traceTag.channel": "web"}
    retrieved = span(1, 0, {"mlflow.spanType": '"RETRIEVER"', **tags})
    found = record_of(retrieved)
    assert (found.session_id, found.tags) == ("s-1", {"channel": "web", "session_id": "s-1"})


def test_a_model_call_of_which_only_the_kind_is_said():
    found = record_of(root(), span(2, 1, {"llm.request.type": "chat"}, status=ERROR))
    assert found.latency_ms.generation == 10.0


def test_a_message_that_only_announces_is_not_the_whole():
    said = "The following component failed to run:\nName: 'llm'\nError: too many requests"
    raised = Event("exception", 1, {"exception.type": "RunError", "exception.message": said})
    failed = span(1, 0, {KIND: "RETRIEVER"}, status=ERROR, events=(raised,))
    assert record_of(failed).error == "retriever: RunError: " + said.replace("\n", " ")


def test_langsmith_calls_a_retriever_embeddings():
    output = json.dumps({"documents": [{"page_content": "t", "metadata": {"id": "kb-1"}}]})
    run = {"langsmith.span.kind": "retriever", OP: "embeddings", "gen_ai.completion": output}
    found = record_of(span(1, 0, {**run, "langsmith.metadata.thread_id": "t-1"}))
    assert ([chunk.id for chunk in found.chunks], found.session_id) == (["kb-1"], "t-1")


def test_a_run_of_langsmith_fails_though_its_status_is_well():
    said = "TimeoutError('too slow')Traceback (most recent call last):\n  File x"
    raised = Event("exception", 1, {"exception.type": "Exception", "exception.message": said})
    run = span(1, 0, {"langsmith.span.kind": "retriever"}, status=1, events=(raised,))
    assert record_of(run).error == "retriever: TimeoutError: TimeoutError('too slow')"


def test_langfuse_says_release_and_environment_of_the_process():
    found = resource_of({"langfuse.release": "1.2", "langfuse.environment": "staging"})
    assert (found.version, found.environment) == ("1.2", "staging")


def test_an_agent_of_pydantic_ai_that_names_no_operation():
    asked = [{"role": "user", "content": "why?"}, {"role": "assistant", "tool_calls": []}]
    agent = {"all_messages_events": json.dumps(asked), "final_result": "because"}
    events = [{"event.name": "gen_ai.choice", "message": {"role": "assistant", "content": "well"}}]
    chat = span(2, 1, {OP: "chat", "events": json.dumps(events)})
    found = record_of(span(1, 0, agent), chat)
    assert (found.query, found.answer) == ("why?", "because")
    assert record_of(chat).answer == "well"


def test_documents_that_have_lost_their_beginning_are_neither_these_nor_none():
    """An SDK keeps 128 attributes of a span, and drops the oldest."""
    left = {f"retrieval.documents.{at}.document.content": f"passage {at}" for at in range(7, 40)}
    found = record_of(root(), span(2, 1, {KIND: "RETRIEVER", **left}))
    assert found.chunks is None
