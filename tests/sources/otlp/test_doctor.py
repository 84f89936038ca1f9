"""What ``ragmon trace-doctor`` shows."""

import json

import msgspec
import pytest

from ragmon.api_schema import FieldExplanation, TraceExplanation
from ragmon.cli import main
from ragmon.sources.otlp.doctor import explain
from ragmon.sources.otlp.spans import Resource
from ragmon.sources.otlp.wire import json as wire_json
from ragmon.sources.otlp.wire import protobuf
from tests.support.otlp import CAPTURES, FOLDERS, NOW, captured, replay, rig, span

KIND = "openinference.span.kind"
SAID = "See [kb-1]: a :key: [/b]"
MESSAGES = [{"role": "assistant", "parts": [{"type": "text", "content": SAID}]}]


def test_each_field_names_its_key_and_span():
    root = span(1, 0, {KIND: "CHAIN", "input.value": "why?", "session.id": "s"}, name="rag")
    model = {KIND: "LLM", "llm.model_name": "m", "llm.token_count.completion": 3}
    explained = explain([root, span(2, 1, model, name="gpt")], NOW)
    fields = explained.queries[0].fields
    assert fields["query"] == FieldExplanation(value="why?", span="rag", key="input.value")
    assert fields["model"] == FieldExplanation(value="m", span="gpt", key="llm.model_name")
    assert fields["tokens"].key == "llm.token_count.completion"
    assert fields["version"] == FieldExplanation(value="1.2", span=None, key=None)


@pytest.mark.parametrize(
    ("attributes", "field", "advice"),
    [
        ({KIND: "RETRIEVER", "input.value": "__REDACTED__"}, "query", "OPENINFERENCE_HIDE_INPUTS"),
        ({"gen_ai.operation.name": "retrieval"}, "chunks", "CAPTURE_MESSAGE_CONTENT"),
        ({KIND: "LLM"}, "chunks", "instrument the retriever"),
        (
            {KIND: "RETRIEVER", "output.value": '[{"id": "a", "text": "t"}]'},
            "chunks.score",
            "score",
        ),
        ({KIND: "LLM"}, "tokens", "include_usage"),
        ({KIND: "LLM"}, "session_id", "session.id"),
    ],
)
def test_what_is_missing_and_what_would_help(attributes, field, advice):
    explained = explain([span(1, 0, attributes)], NOW)
    missing = {each.field: each.advice for each in explained.queries[0].missing}
    assert advice in missing[field]


@pytest.mark.parametrize(
    ("attributes", "verdict"),
    [
        ({KIND: "EMBEDDING"}, "no query: embeddings without retrieval, as an indexing run makes"),
        ({KIND: "EVALUATOR"}, "no query: an evaluation or feedback"),
        ({"http.route": "/"}, "no query: no span retrieves or generates"),
    ],
)
def test_why_a_trace_is_no_query(attributes, verdict):
    assert explain([span(1, 0, attributes)], NOW).verdict.startswith(verdict)


@pytest.mark.parametrize(
    ("folder", "pattern"),
    [("oi-langchain", "*.bin"), ("genai-semconv-json", "0*.json"), ("langfuse", "*.gz")],
)
def test_files_of_any_form(folder, pattern, capsys):
    files = [str(each) for each in sorted((CAPTURES / folder).glob(pattern))]
    assert files
    assert main(["trace-doctor", "--json", *files]) == 0
    explained = json.loads(capsys.readouterr().out)
    expected = json.loads((CAPTURES / folder / "expected.json").read_text())["traces"]
    queries = [query for trace in explained for query in trace["queries"]]
    assert len(queries) == len(expected)


def test_lines_of_json_as_the_collector_writes_them(tmp_path, capsys):
    bodies = [b" ".join(each.body.split(b"\n")) for each in captured("genai-semconv-json")]
    file = tmp_path / "traces.jsonl"
    file.write_bytes(b"\n".join(bodies))
    assert main(["trace-doctor", str(file)]) == 0
    assert "25 traces, 23 queries" in capsys.readouterr().out


def test_brackets_and_colons_in_a_text_are_shown(tmp_path, capsys):
    told = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps(MESSAGES)}
    attributes = [{"key": key, "value": {"stringValue": told[key]}} for key in told]
    span = {
        "traceId": "ab" * 16,
        "spanId": "cd" * 8,
        "name": "chat",
        "startTimeUnixNano": "1700000000000000000",
        "endTimeUnixNano": "1700000001000000000",
        "attributes": attributes,
    }
    file = tmp_path / "traces.json"
    file.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}))
    assert main(["trace-doctor", str(file)]) == 0
    assert SAID in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["/nowhere"], 2, "cannot read /nowhere"),
        (["--last", "3", "--url", "http://127.0.0.1:9"], 3, "no answer"),
    ],
)
def test_what_cannot_be_shown(arguments, status, said, capsys):
    assert main(["trace-doctor", *arguments]) == status
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["x", "--last", "3"]], ids=["neither", "both"])
def test_either_files_or_the_newest_of_a_daemon(arguments, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["trace-doctor", *arguments])
    assert "pass files, --last N or --watch" in capsys.readouterr().err


def test_a_file_that_holds_no_traces(tmp_path, capsys):
    file = tmp_path / "notes.txt"
    file.write_text("just some notes")
    assert main(["trace-doctor", str(file)]) == 2
    assert "no OTLP protobuf" in capsys.readouterr().err


def test_the_newest_traces_of_a_running_daemon(tmp_path):
    with rig(tmp_path) as site:
        replay(site, captured("oi-langchain"))
        site.wait()
        body = site.send(b"", method="GET", query=b"last=3").body
    newest = msgspec.json.decode(body, type=list[TraceExplanation])
    assert [len(each.queries) for each in newest] == [1, 1, 1]
    assert msgspec.json.encode(newest) == body


def missing_of(*spans):
    explained = explain(spans, NOW)
    return {missing.field: missing for missing in explained.queries[0].missing}


OWN = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}


@pytest.mark.parametrize(
    ("attributes", "field", "key"),
    [
        ({"shop.ask": "What is the fee?"}, "query", "shop.ask"),
        ({"shop.replyText": "It is free."}, "answer", "shop.replyText"),
        ({"shop.hits": '[{"ref": "kb-1", "cosine": 0.5}]'}, "chunks", "shop.hits"),
        ({"shop.conversation": "c-17"}, "session_id", "shop.conversation"),
        ({"shop.customer_key": "u-17"}, "user_id", "shop.customer_key"),
        ({"shop.tokens_used": 17}, "tokens", "shop.tokens_used"),
        ({"shop.env": "prod"}, "environment", "shop.env"),
    ],
)
def test_the_attribute_that_holds_a_missing_field_is_named(attributes, field, key):
    missing = missing_of(
        span(1, 0, attributes, name="handle", resource=Resource()),
        span(2, 1, OWN, name="chat", resource=Resource()),
    )
    assert (missing[field].span, missing[field].key) == ("handle", key)
    assert f"`{key}` of the span `handle`" in missing[field].advice
    assert missing[field].line


def test_what_a_setting_hides_is_named_with_the_line_that_shows_it():
    hidden = {KIND: "RETRIEVER", "input.value": "__REDACTED__"}
    scope = "openinference.instrumentation.langchain"
    missing = missing_of(span(1, 0, hidden, name="search", scope=scope))
    assert missing["query"].key == "input.value"
    assert missing["query"].line.startswith("unset OPENINFERENCE_HIDE_INPUTS")
    assert missing["query"].framework == "OpenInference for LangChain"


def test_a_number_that_is_no_score_by_name():
    passages = '[{"id": "a", "text": "t", "cosine": 0.5}, {"id": "b", "text": "u", "cosine": 0.25}]'
    missing = missing_of(span(1, 0, {KIND: "RETRIEVER", "output.value": passages}))
    assert "under `cosine`: call it `score`" in missing["chunks.score"].advice


def test_a_failed_call_is_not_asked_for_what_only_an_answer_has():
    failed = span(2, 1, {KIND: "LLM", "llm.model_name": "m"}, status=2, message="429")
    root = span(1, 0, {KIND: "CHAIN", "input.value": "why?"}, status=2)
    assert missing_of(root, failed).keys() == {"chunks", "session_id", "user_id"}


def test_a_failed_search_is_not_asked_for_what_it_found():
    failed = span(2, 1, {KIND: "RETRIEVER", "input.value": "why?"}, status=2, message="timeout")
    root = span(1, 0, {KIND: "CHAIN", "input.value": "why?"}, status=2)
    assert missing_of(root, failed).keys() == {"session_id", "user_id"}


def test_what_fails_before_any_step_is_not_asked_for_passages():
    root = span(1, 0, {KIND: "CHAIN", "input.value": "why?"}, status=2)
    assert missing_of(root).keys() == {"session_id", "user_id"}


def test_a_trace_that_is_not_understood_says_what_would_make_it_a_query():
    told = {"shop.question": "What is the fee?", "shop.reply": "It is free."}
    explained = explain([span(1, 0, told, name="handle")], NOW)
    assert "`shop.question` of `handle`" in explained.remedy
    assert "`shop.reply` of `handle`" in explained.remedy
    assert explained.line.startswith("span.set_attributes(")


def test_the_line_for_a_query_makes_one():
    namespace = {"span": Written(), "question": "What is the fee?", "answer": "It is free."}
    exec(explain([span(1, 0, {})], NOW).line, namespace)
    explained = explain([span(1, 0, namespace["span"].attributes)], NOW)
    assert explained.queries[0].fields["answer"].value == "It is free."


class Written:
    """A span that is written to."""

    def __init__(self):
        self.attributes = {}

    def set_attributes(self, attributes):
        self.attributes |= attributes


@pytest.mark.parametrize(
    ("attributes", "remedy"),
    [
        ({"http.route": "/", "url.query": "a=b"}, "if it is other software, there is nothing"),
        ({"db.system": "chroma", "db.operation": "add"}, "An indexing run is no query"),
    ],
)
def test_other_traces_say_that_nothing_is_to_be_done(attributes, remedy):
    assert remedy in explain([span(1, 0, attributes)], NOW).remedy


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_captured_gap_has_a_line_for_its_framework(folder):
    explained = [explain(spans, NOW) for spans in traces_of(folder)]
    gaps = [gap for trace in explained for query in trace.queries for gap in query.missing]
    assert [gap.field for gap in gaps if not gap.line and gap.field != "chunks.score"] == []
    assert {gap.key for gap in gaps if gap.key} <= {
        "input.value", "output.value", "judgment.customer_id",  # or a tenant
    }  # fmt: skip


def traces_of(folder):
    """The spans of each captured trace."""
    by_trace = {}
    for request in captured(folder):
        if "traces" not in request.path:
            continue
        decode = wire_json.decode if "json" in request.content_type else protobuf.decode
        for decoded in decode(request.plain):
            for each in decoded.spans:
                by_trace.setdefault(each.trace_id, []).append(each)
    return by_trace.values()


def test_the_model_of_a_call_that_says_to_be_a_chain():
    told = {KIND: "CHAIN", "input.value": "why?", "output.value": "so", "llm.model_name": "m"}
    assert explain([span(1, 0, told)], NOW).queries[0].fields["model"].key == "llm.model_name"
