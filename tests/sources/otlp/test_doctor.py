"""What ``ragmon trace-doctor`` shows."""

import json

import msgspec
import pytest

from ragmon.api_schema import FieldExplanation, TraceExplanation
from ragmon.cli import main
from ragmon.sources.otlp.doctor import explain
from tests.support.otlp import CAPTURES, NOW, captured, replay, rig, span

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
    assert "pass files, or --last N" in capsys.readouterr().err


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
