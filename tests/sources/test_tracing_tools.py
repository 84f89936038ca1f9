"""The sources ``phoenix`` and ``langfuse``: history and scores, each once."""

import json
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from pydantic import ValidationError

from ragmon.errors import RemoteError, SettingsError
from ragmon.plugins import resolve
from ragmon.sources import SourceContext
from ragmon.sources.langfuse import span_id_of, trace_id_of
from ragmon.sources.otlp.wire import protobuf
from ragmon.sources.tracing_tools.client import ThrottledError
from tests.support.daemons import Process
from tests.support.jsonl import Killed
from tests.support.metrics import total, values
from tests.support.otlp import NOW, captured, rig, truth
from tests.support.tracing_tools import (
    LangfuseServer,
    PhoenixServer,
    ToolAnswer,
    serving,
)
from tests.support.wait import eventually

SINCE = "2026-11-20T00:00:00Z"
LATER = NOW + 3 * 86_400.0  # after the annotations were made
DAY_S = 86_400.0


class Tool:
    """A source in front of a real store, which can be restarted and killed."""

    def __init__(self, site, server, options):
        self.site = site
        self.server = server
        self.killed = ""
        self._options = {"name": "support", "url": server.url, "since": SINCE} | options
        self.restart()

    def restart(self):
        engine, source = self.site.engine, self.site.source
        entry = {"kind": "phoenix"} | self._options
        plugin, options = resolve("ragmon.sources", "sources.0", entry)
        context = SourceContext(
            sink=self,
            counters=self.site.counters,
            clock=self.site.clock,
            offset=lambda name: engine.thread.ask(lambda: engine.shard.offset(name)),
            retention_s=7 * DAY_S,
            max_skew_s=300.0,
            spans=source.logged,
            scores=source.logged_scores,
        )
        self.source = plugin.build(options, context)

    def submit(self, submission):
        if self.killed == "before":
            raise Killed
        if self.killed != "after":
            self.site.engine.writer.submit(submission)
            return
        done = threading.Event()
        submission.reply = lambda _: done.set()  # the spans reach nobody: the process ends here
        self.site.engine.writer.submit(submission)
        assert done.wait(10)
        raise Killed

    def step_until_killed(self):
        while self.source.step():
            pass

    def read(self):
        """Everything that is old enough, and the traces mapped."""
        while self.source.step():
            pass
        self.site.wait()

    @property
    def counts(self):
        return self.site.counters.counts


@contextmanager
def phoenix(folder, **options):
    with rig(folder, now=LATER) as site, serving(PhoenixServer()) as server:
        yield Tool(site, server, {"kind": "phoenix"} | options)


@contextmanager
def langfuse(folder, **options):
    with rig(folder) as site, serving(LangfuseServer()) as server:
        server.observations = observations()
        given = {"kind": "langfuse", "public_key": "pk-lf-1", "secret_key": "sk-lf-2"}
        yield Tool(site, server, given | options)


def observations():
    """What Langfuse makes of the spans that its own SDK sent."""
    rows = []
    for request in captured("langfuse"):
        for decoded in protobuf.decode(request.plain):
            rows += [_observation(span) for span in decoded.spans]
    assert len(rows) == 9
    return rows


def _observation(span):
    values = dict(span.attributes)
    prefix = "langfuse.observation."
    return {
        "id": span.span_id.hex(),
        "traceId": span.trace_id.hex(),
        "projectId": "p1",
        "parentObservationId": span.parent_id.hex() or None,
        "isRootObservation": not span.parent_id,
        "type": values[prefix + "type"].upper(),
        "name": span.name,
        "startTime": _iso(span.start_ns),
        "endTime": _iso(span.end_ns),
        "level": "DEFAULT",
        "statusMessage": None,
        "version": None,
        "environment": values.get("langfuse.environment", "default"),
        "release": values.get("langfuse.release"),
        "userId": values.get("user.id"),
        "sessionId": values.get("session.id"),
        "input": values.get(prefix + "input"),
        "output": values.get(prefix + "output"),
        "model": values.get(prefix + "model.name"),
        "usageDetails": json.loads(values.get(prefix + "usage_details", "{}")),
        "costDetails": {},
        "totalCost": 0,
        "metadata": {
            "resourceAttributes": json.dumps({"service.name": "help desk", "filler": "x" * 300}),
            "scope": {"name": "langfuse-sdk"},
            "plan": "gold",
        },
        "tags": [],
        "traceName": "rag",
        "completionStartTime": None,
        "createdAt": _iso(span.end_ns),
        "updatedAt": _iso(span.end_ns),
    }


def _iso(nanoseconds):
    moment = datetime.fromtimestamp(nanoseconds // 1_000_000 / 1e3, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def score(trace_id, value=1, *, at=NOW - 3_600, observation=None, **fields):
    """A score of Langfuse's third version of them."""
    kind = "observation" if observation else "trace"
    subject = {"kind": kind, "id": observation or trace_id}
    if observation:
        subject["traceId"] = trace_id
    time = _iso(int(at * 1_000) * 1_000_000)
    given = {"id": f"s-{trace_id[:8]}-{value}", "projectId": "p1", "name": "user feedback"}
    given |= {"value": value, "dataType": "NUMERIC", "source": "API", "environment": "default"}
    given |= {"timestamp": time, "createdAt": time, "updatedAt": time, "comment": None}
    return given | {"metadata": {}, "configId": None, "subject": subject} | fields


def check_truth(site, folder):
    """The queries are what truly happened."""
    checked = 0
    for expected in truth(folder)["traces"]:
        record = site.record(expected["trace_id"])
        assert record is not None, expected["query"]
        assert record.query == expected["query"]
        if expected["n_docs_in_payload"]:
            assert [chunk.id for chunk in record.chunks or ()] == expected["doc_ids"]
        if expected["answer_in_payload"] and expected["answer_prefix"]:
            assert record.answer.startswith(expected["answer_prefix"])
        if expected["scores_in_payload"] == "yes" and expected["top_score"]:
            assert record.chunks[0].score == pytest.approx(expected["top_score"])
        if expected["prompt_tokens"]:
            assert record.tokens.prompt == expected["prompt_tokens"]
        if expected["error"]:
            assert record.error
        checked += 1
    assert checked


@pytest.mark.parametrize("page", [1_000, 7])
def test_the_history_of_phoenix_is_read(tmp_path, page):
    with phoenix(tmp_path, page=page, pipeline="docs") as tool:
        tool.read()
        check_truth(tool.site, "oi-llamaindex")
        assert tool.counts["otlp_spans", "accepted"] == len(tool.server.spans) == 114
        assert tool.site.record(truth("oi-llamaindex")["traces"][0]["trace_id"]).pipeline == "docs"
        assert ("otlp_spans", "duplicate") not in tool.counts


def test_annotations_of_phoenix_are_feedback_and_labels(tmp_path):
    with phoenix(tmp_path) as tool:
        tool.read()
        first, second, third = truth("oi-llamaindex")["traces"][:3]
        detail = tool.site.query(first["trace_id"])
        assert detail["feedback"]["rating"] == 1.0
        detail = tool.site.query(second["trace_id"])
        assert detail["feedback"]["rating"] == -1.0
        assert detail["feedback"]["comment"] == "thumbs_down: wrong page"
        detail = tool.site.query(third["trace_id"])
        assert [each["faithful"] for each in detail["labels"]] == [0.9]


def test_annotations_that_come_later_are_seen(tmp_path):
    with phoenix(tmp_path) as tool:
        kept, tool.server.annotations = tool.server.annotations, {"span": [], "trace": []}
        for span in tool.server.spans:
            age_ns = int((tool.site.clock.now() - 600) * 1e9) - span["start_time_unix_nano"]
            span["start_time_unix_nano"] += age_ns
            span["end_time_unix_nano"] += age_ns
        tool.read()
        first = truth("oi-llamaindex")["traces"][0]["trace_id"]
        assert tool.site.query(first)["feedback"] is None
        tool.server.annotations = kept
        tool.site.clock.sleep(1_000)
        tool.read()
        assert tool.site.query(first)["feedback"] is None
        tool.site.clock.sleep(3_600)
        tool.read()
        assert tool.site.query(first)["feedback"]["rating"] == 1.0


def test_verdicts_that_ragmon_exported_do_not_come_back(tmp_path):
    with phoenix(tmp_path) as tool:
        root = next(span for span in tool.server.spans if not span["parent_span_id"])
        kind = {"key": "openinference.span.kind", "value": {"string_value": "EVALUATOR"}}
        own = root | {
            "name": "ragmon faithfulness",
            "span_id": "0" * 15 + "1",
            "attributes": [kind],
        }
        tool.server.spans.append(own)
        tool.read()
        assert tool.counts["otlp_spans", "accepted"] == 114


@pytest.mark.parametrize("is_old", [False, True], ids=["newest endpoints", "version 3"])
@pytest.mark.parametrize("page", [1_000, 2])
def test_the_history_of_langfuse_is_read(tmp_path, page, is_old):
    with langfuse(tmp_path, page=page) as tool:
        tool.server.is_old = is_old
        tool.read()
        check_truth(tool.site, "langfuse")
        record = tool.site.record(truth("langfuse")["traces"][0]["trace_id"])
        assert record.pipeline == "help desk"
        assert record.model == "fake-lf"
        assert (record.session_id, record.user_id) == ("sess-1", "user-7")
        assert (record.version, record.environment) == ("2026.11.1", "staging")
        assert record.tags["plan"] == "gold"
        assert tool.counts["otlp_spans", "accepted"] == 9


@pytest.mark.parametrize("is_old", [False, True], ids=["newest endpoints", "version 3"])
def test_scores_of_langfuse_are_feedback_and_labels(tmp_path, is_old):
    with langfuse(tmp_path) as tool:
        tool.server.is_old = is_old
        first, second, third = (each["trace_id"] for each in truth("langfuse")["traces"])
        root = next(each["id"] for each in tool.server.observations if each["traceId"] == second)
        tool.server.scores = [
            score(first, 1, comment="helped"),
            score(second, 0, observation=root, source="ANNOTATION"),
            score(third, 0.25, name="faithfulness", source="EVAL"),
            score(third, 0.5, name="conciseness", source="EVAL"),
        ]
        tool.read()
        assert tool.site.query(first)["feedback"]["rating"] == 1.0
        assert tool.site.query(first)["feedback"]["comment"] == "helped"
        assert tool.site.query(second)["feedback"]["rating"] == -1.0
        assert tool.site.query(third)["feedback"] is None
        assert [each["labeller"] for each in tool.site.query(third)["labels"]] == [
            "llm:faithfulness"
        ]


def test_a_score_that_is_changed_later_counts_as_it_is_now(tmp_path):
    with langfuse(tmp_path) as tool:
        first = truth("langfuse")["traces"][0]["trace_id"]
        given = score(first, 1, at=NOW - 120)
        tool.server.scores = [given]
        tool.read()
        assert tool.site.query(first)["feedback"]["rating"] == 1.0
        changed = _iso(int((tool.site.clock.now() + 30) * 1e3) * 1_000_000)
        tool.server.scores = [given | {"value": 0, "updatedAt": changed}]
        tool.site.clock.sleep(4_300)
        tool.read()
        assert tool.site.query(first)["feedback"]["rating"] == -1.0


def test_a_score_that_is_new_is_seen_at_the_next_look(tmp_path):
    with langfuse(tmp_path) as tool:
        tool.read()
        first = truth("langfuse")["traces"][0]["trace_id"]
        tool.server.scores = [score(first, 1, at=tool.site.clock.now())]
        tool.site.clock.sleep(200)
        tool.read()
        assert tool.site.query(first)["feedback"]["rating"] == 1.0


def test_spans_that_came_late_are_read_again(tmp_path):
    with langfuse(tmp_path) as tool:
        rows = tool.server.observations
        shift_s = NOW - 300 - datetime.fromisoformat(rows[0]["startTime"]).timestamp()
        for row in rows:
            for name in ("startTime", "endTime"):
                moment = datetime.fromisoformat(row[name]).timestamp() + shift_s
                row[name] = _iso(int(moment * 1e3) * 1_000_000)
        late = [row for row in rows if row["type"] == "RETRIEVER"]
        tool.server.observations = [row for row in rows if row["type"] != "RETRIEVER"]
        tool.read()
        first = truth("langfuse")["traces"][0]["trace_id"]
        assert tool.site.record(first).chunks is None
        tool.server.observations += late
        tool.site.clock.sleep(2_400)
        tool.read()
        check_truth(tool.site, "langfuse")
        assert tool.site.stored() == 3


@pytest.mark.parametrize("instant", ["before", "after"])
def test_a_kill_neither_repeats_nor_skips(tmp_path, instant):
    with phoenix(tmp_path, page=20) as tool:
        for _ in range(4):
            tool.killed = instant
            with pytest.raises(Killed):
                tool.step_until_killed()
            tool.killed = ""
            tool.restart()
            tool.site.source.worker.restore()
            tool.source.step()
        tool.read()
        check_truth(tool.site, "oi-llamaindex")
        assert tool.site.stored() == len(truth("oi-llamaindex")["traces"])


def test_a_pause_that_the_tool_asks_for_is_kept(tmp_path):
    with langfuse(tmp_path) as tool:
        limited = ToolAnswer(429, {"message": "Rate limit exceeded"}, {"Retry-After": "17"})
        tool.server.trouble = [limited]
        with pytest.raises(ThrottledError) as throttled:
            tool.source.step()
        assert throttled.value.retry_after_s == 17.0
        tool.server.trouble = [limited]
        assert tool.source._turn() == 17.0
        tool.read()
        check_truth(tool.site, "langfuse")
        requests = tool.source.figures.requests
        assert requests["throttled"] == 2
        assert requests["failed"] == 0


@pytest.mark.parametrize(
    ("trouble", "says"),
    [
        (ToolAnswer(500, "internal error"), "answered 500"),
        (ToolAnswer(200, {"data": 5}), "answered something else"),
        (ToolAnswer(302, "", {"Location": "http://localhost/"}), "answered 302"),
        (ToolAnswer(404, "Project with name default not found"), "not found"),
    ],
)
def test_an_error_is_told_and_tried_again(tmp_path, trouble, says):
    with phoenix(tmp_path) as tool:
        tool.server.trouble = [trouble]
        with pytest.raises(RemoteError, match=says):
            tool.source.step()
        tool.read()
        check_truth(tool.site, "oi-llamaindex")
        assert tool.source.figures.requests["failed"] == 1


def test_wrong_keys_are_told_without_them(tmp_path):
    with langfuse(tmp_path, secret_key="sk-lf-wrong") as tool:
        with pytest.raises(RemoteError, match="Check the keys") as refused:
            tool.source.step()
        assert "sk-lf" not in str(refused.value)


def test_a_cursor_that_is_refused_begins_its_window_again(tmp_path):
    with phoenix(tmp_path, page=20) as tool:
        while not any("cursor" in parameters for _, parameters in tool.server.asked):
            assert tool.source.step()
        tool.server.trouble = [ToolAnswer(422, "Invalid cursor")]
        tool.read()
        check_truth(tool.site, "oi-llamaindex")
        assert tool.site.stored() == len(truth("oi-llamaindex")["traces"])


def test_an_answer_that_is_too_large_is_asked_for_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("ragmon.sources.tracing_tools.client._MOST_BYTES", 500_000)
    with phoenix(tmp_path) as tool:
        tool.read()
        check_truth(tool.site, "oi-llamaindex")
        limits = {
            parameters["limit"][0] for path, parameters in tool.server.asked if "otlp" in path
        }
        assert {"200", "100"} <= limits


@pytest.mark.parametrize(
    ("text", "trace_id"),
    [
        ("92351ED3018451025080166E21EC14B4", "92351ed3018451025080166e21ec14b4"),
        ("6e1f0b0e-53d0-4a44-a2b6-3c9d4f6a1b22", "6e1f0b0e53d04a44a2b63c9d4f6a1b22"),
    ],
)
def test_ids_of_older_sdks(text, trace_id):
    assert trace_id_of(text) == trace_id
    assert len(trace_id_of("my own id")) == 32
    assert len(span_id_of(text)) == 16


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kind": "langfuse", "name": "a", "public_key": "pk"}, "exactly one of secret_key"),
        ({"kind": "langfuse", "name": "a b", "public_key": "pk", "secret_key": "s"}, "name"),
        ({"kind": "phoenix", "name": "a", "project": "a/b"}, "project"),
        ({"kind": "phoenix", "name": "a", "since": "2026-01-01"}, "since"),
        ({"kind": "phoenix", "name": "a", "url": "http://u:p@host"}, "no credentials"),
    ],
)
def test_options_that_cannot_be(options, says):
    with pytest.raises((ValidationError, SettingsError), match=says):
        resolve("ragmon.sources", "sources.0", options)


def test_a_daemon_reads_each_query_once_through_kills(tmp_path):
    """``kill -9`` while pages are read; then every query was counted once."""
    traces = truth("oi-llamaindex")["traces"]
    with serving(PhoenixServer()) as server:
        entry = {"kind": "phoenix", "name": "p", "url": server.url, "since": SINCE}
        entry |= {"page": 3, "every_s": 0.05, "settle_s": 0.0, "scores_again_s": []}
        flags = ("--sources", json.dumps([entry]), "--retention.records", "4000d")
        flags += ("--retention.windows", "4000d", "--otlp.linger", "0.1s")
        flags += ("--otlp.idle_timeout", "0.5s")
        data_dir = Path(tmp_path) / "data"
        for asked in (8, 25, 40):
            with Process(data_dir, *flags) as process:
                eventually(partial(server.was_asked, asked), "pages are read", 20)
                process.kill()
        with Process(data_dir, *flags) as process:

            def counted():
                return total(process.get("/metrics").text, "ragmon_queries_total")

            eventually(lambda: counted() == len(traces), "every query is there", 30)
            page = process.get("/metrics").text
            assert values(page, "ragmon_tracing_tool_lag_seconds")
            assert total(page, "ragmon_tracing_tool_requests_total", outcome="answered") > 0
            listed = process.get("/v1/queries?limit=100").json["queries"]
            ids = {entry["record"]["query_id"] for entry in listed}
            assert ids == {each["trace_id"] for each in traces}


ODD_VALUES = ([1], {"a": {}}, -5, 1e300, "\x00", "x" * 300, True, "9" * 5_000)


def deep(depth):
    nested = None
    for _ in range(depth):
        nested = [nested]
    return nested


def odd_ones(row):
    """A row with every field in turn gone, of another type, and nested deeper than is read."""
    for key in row:
        yield {name: value for name, value in row.items() if name != key}
        for value in ODD_VALUES:
            yield {**row, key: value}
    yield {**row, "metadata": {"plan": deep(900)}}
    yield {}


def test_an_odd_observation_of_langfuse_costs_no_other(tmp_path):
    with langfuse(tmp_path) as tool:
        rows = tool.server.observations
        odd = [*odd_ones(rows[0] | {"traceId": "f" * 32})]
        page = [*odd, *rows]
        tool.server.trouble = [ToolAnswer(200, {"data": page, "meta": {}})]
        tool.server.observations = []
        tool.read()
        check_truth(tool.site, "langfuse")
        assert tool.counts["langfuse", "invalid"] > 1


def test_an_odd_span_of_phoenix_costs_no_other(tmp_path):
    with phoenix(tmp_path) as tool:
        rows = tool.server.spans
        odd = [*odd_ones(rows[0] | {"trace_id": "f" * 32})]
        odd += [rows[0] | {"attributes": wrong} for wrong in ([5], [{"key": [1], "value": 3}], 7)]
        tool.server.trouble = [ToolAnswer(200, {"data": [*odd, *rows], "next_cursor": None})]
        tool.server.spans = []
        tool.read()
        check_truth(tool.site, "oi-llamaindex")
        assert tool.counts["phoenix", "invalid"] > 1


def test_an_odd_score_costs_no_other(tmp_path):
    with langfuse(tmp_path) as tool:
        tool.read()
        first = truth("langfuse")["traces"][0]["trace_id"]
        given = score(first, 1, at=tool.site.clock.now())
        tool.site.clock.sleep(200)
        tool.source._sweeps = [each for each in tool.source._sweeps if each.subject == "scores"]
        second = truth("langfuse")["traces"][1]["trace_id"]
        page = [*odd_ones(given | {"subject": {"kind": "trace", "id": second}}), given]
        tool.server.trouble = [ToolAnswer(200, {"data": page, "meta": {}})]
        assert tool.source.step()
        assert tool.site.query(first)["feedback"]["rating"] == 1.0


def test_an_odd_annotation_or_span_of_phoenix_stops_nobody(tmp_path):
    with phoenix(tmp_path) as tool:
        tool.server.spans.append({"name": "no ids", "start_time_unix_nano": 0})
        odd = [
            {"span_id": [1]},
            {"result": deep(900)},
            *odd_ones(tool.server.annotations["span"][0]),
        ]
        tool.source._sweeps = [each for each in tool.source._sweeps if each.subject == "scores"]
        answers = [{"data": [tool.server.spans[0]]}, {"data": odd}, {"data": odd}]
        tool.server.trouble = [ToolAnswer(200, answer) for answer in answers]
        while tool.server.trouble:
            assert tool.source.step()


def test_a_page_that_is_named_again_and_again_is_told(tmp_path):
    with phoenix(tmp_path, page=20) as tool:
        while not any("cursor" in parameters for _, parameters in tool.server.asked):
            assert tool.source.step()
        answer = {"data": [], "next_cursor": "1"}
        tool.server.trouble = [ToolAnswer(200, answer), ToolAnswer(200, answer)]
        tool.source.step()
        with pytest.raises(RemoteError, match="again and again"):
            tool.source.step()


def test_annotations_without_end_are_not_collected(tmp_path):
    with phoenix(tmp_path) as tool:
        tool.source._sweeps = [each for each in tool.source._sweeps if each.subject == "scores"]
        many = [{"span_id": "a"}] * 1_000
        page = ToolAnswer(200, {"data": many, "next_cursor": "again"})
        tool.server.trouble = [
            ToolAnswer(200, {"data": tool.server.spans[:2], "next_cursor": None}),
            *[page] * 30,
        ]
        assert tool.source.step(), "it asks for fewer"
        assert len(tool.server.trouble) > 5
