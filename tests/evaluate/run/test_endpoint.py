"""A real HTTP service on loopback, which behaves as each question tells it to."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ragmon.cli import main
from ragmon.clock import ManualClock
from ragmon.evaluate.cases import Case, text_id
from ragmon.evaluate.document import load
from ragmon.evaluate.errors import DataError
from ragmon.evaluate.run.endpoint import RequestPolicy, Template, drive, read_template

ANSWER = {"answer": "yes", "chunks": [{"id": "a", "text": "x", "score": 0.5}], "citations": ["a"]}


class Service(ThreadingHTTPServer):
    """Answers ``replies[query]`` in turn, the last one for ever; remembers what it was asked."""

    def __init__(self, replies):
        super().__init__(("127.0.0.1", 0), Handler)
        self.replies = {query: list(turns) for query, turns in replies.items()}
        self.seen = []
        self.lock = threading.Lock()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/ask"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        query = body.get("query") or body["input"]["text"]
        with self.server.lock:
            self.server.seen.append((body, dict(self.headers)))
            turns = self.server.replies[query]
            status, answer, headers = turns.pop(0) if len(turns) > 1 else turns[0]
        if status is None:
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        content = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


def reply(answer=ANSWER, status=200, **headers):
    return status, answer, {name.replace("_", "-"): value for name, value in headers.items()}


@pytest.fixture
def serve():
    running = []

    def start(**replies):
        service = Service(replies)
        thread = threading.Thread(target=service.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        running.append((service, thread))
        return service

    yield start
    for service, thread in running:
        service.shutdown()
        service.server_close()
        thread.join(10)


def ask(service, *queries, clock=None, template=None, **pace):
    cases = [Case(query=query, case_id=f"id-{query}") for query in queries]
    template = template or Template(url=service.url)
    return drive(cases, template, RequestPolicy(**pace), clock or ManualClock(1000.0))


def test_what_is_recorded(serve):
    service = serve(q=[reply()])
    record = ask(service, "q")["id-q"]
    assert (record.query, record.answer, record.citations) == ("q", "yes", ["a"])
    assert [(chunk.id, chunk.score) for chunk in record.chunks] == [("a", 0.5)]
    assert (record.timestamp, record.latency_ms.total, record.error) == (1000.0, 0.0, None)
    assert service.seen[0][0] == {"query": "q"}


@pytest.mark.parametrize(
    ("turns", "attempts", "slept", "error"),
    [
        pytest.param([reply(status=503), reply()], 3, 1.0, None, id="once overloaded"),
        pytest.param(
            [reply(status=429, Retry_After="7"), reply()], 3, 7.0, None, id="told to wait"
        ),
        pytest.param(
            [reply(status=503, Retry_After="Thu, 01 Jan 1970 00:16:49 GMT"), reply()],
            3,
            9.0,
            None,
            id="told until when",
        ),
        pytest.param([(None, "", {}), reply()], 3, 1.0, None, id="connection lost"),
        pytest.param([reply("bang", 500)], 3, 3.0, "500 Internal Server Error: bang", id="always"),
        pytest.param([reply("no", 404)], 3, 0.0, "404 Not Found: no", id="asking again is no use"),
        pytest.param([reply("<html>")], 3, 0.0, "no JSON: <html>", id="not JSON"),
        pytest.param(
            [reply("", 307, Location="http://x/ask/"), reply()],
            3,
            0.0,
            "307 Temporary Redirect: http://x/ask/",
            id="moved: the headers go nowhere else",
        ),
        pytest.param(
            [reply({"text": 1})],
            3,
            0.0,
            "the answer holds neither 'answer' nor 'chunks'; it holds text",
            id="other keys",
        ),
        pytest.param(
            [reply({"answer": 5})], 3, 0.0, "unusable answer: Expected `str | null`", id="a number"
        ),
    ],
)
def test_failures(serve, turns, attempts, slept, error):
    clock = ManualClock(1000.0)
    record = ask(serve(q=turns, ok=[reply()]), "q", "ok", clock=clock, attempts=attempts)["id-q"]
    assert clock.now() == 1000.0 + slept
    if error is None:
        assert (record.answer, record.error) == ("yes", None)
    else:
        assert record.error.startswith(error)
        assert record.answer is None


def test_many_at_a_time_in_the_order_of_the_cases(serve):
    queries = [f"q{number}" for number in range(40)]
    service = serve(**{query: [reply()] for query in queries})
    counted = []
    cases = [Case(query=query, case_id=query) for query in queries]
    pace = RequestPolicy(concurrency=8)
    done = lambda: counted.append(1)  # noqa: E731
    run = drive(cases, Template(url=service.url), pace, ManualClock(), done)
    assert list(run) == queries
    assert len(counted) == len(service.seen) == 40


def test_what_is_broken_off_asks_no_more(serve):
    service = serve(**{f"q{number}": [reply()] for number in range(200)})
    cases = [Case(query=query, case_id=query) for query in service.replies]

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drive(cases, Template(url=service.url), RequestPolicy(concurrency=2), ManualClock(), stop)
    assert 1 <= len(service.seen) < 100


def test_a_template_for_another_service(serve, monkeypatch):
    monkeypatch.setenv("TOKEN", "s3cret")
    service = serve(
        q=[reply({"data": [{"out": "yes", "docs": [{"meta": {"key": "a"}, "content": "x"}, "y"]}]})]
    )
    template = Template(
        url=service.url,
        headers={"Authorization": "Bearer ${TOKEN}"},
        body={"input": {"text": "{query}"}, "trace": ["{case_id}"], "n": 3},
        answer="data.0.out",
        chunks="data.0.docs",
        chunk={"id": "meta.key"},
    )
    record = ask(service, "q", template=template)["id-q"]
    assert [(chunk.id, chunk.text) for chunk in record.chunks] == [("a", "x"), (text_id("y"), "y")]
    body, headers = service.seen[0]
    assert body == {"input": {"text": "q"}, "trace": ["id-q"], "n": 3}
    assert headers["Authorization"] == "Bearer s3cret"


def test_ids_may_be_numbers(serve):
    body = json.dumps({"answer": "x", "chunks": [{"id": 7, "text": "a"}]})
    run = ask(serve(q=[reply(body)]), "q")
    assert [chunk.id for chunk in run["id-q"].chunks] == ["7"]


def test_plain_ids_as_chunks(serve):
    service = serve(q=[reply({"ids": ["a", "b"]})])
    template = Template(url=service.url, chunks="ids", chunks_are="ids")
    record = ask(service, "q", template=template)["id-q"]
    assert [chunk.id for chunk in record.chunks] == ["a", "b"]


def test_nothing_worked(serve):
    with pytest.raises(DataError, match="every query failed; the first: 404"):
        ask(serve(q=[reply("", 404)]), "q")


def test_an_address_without_a_scheme_is_refused_before_anything_is_asked():
    template = Template(url="localhost:8000/ask")
    with pytest.raises(DataError, match="Begin it with http://"):
        drive([Case(query="q", case_id="q")], template, RequestPolicy(), ManualClock())


def test_templates_from_files(tmp_path):
    path = tmp_path / "ask.yaml"
    path.write_text("url: http://x\nbody: {q: '{query}'}\nanswer: data.text\n")
    assert read_template(path) == Template(
        url="http://x", body={"q": "{query}"}, answer="data.text"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "url: http://x\nanser: a\n", "unknown field anser. Did you mean answer", id="a typo"
        ),
        pytest.param("answer: a\n", "missing required field url. Write url: http", id="no url"),
        pytest.param("a: [", "is no YAML", id="no YAML"),
        pytest.param("", "expected object, got null. Write url", id="an empty file"),
        pytest.param(None, "cannot be read", id="no file"),
    ],
)
def test_templates_that_cannot_be_used(tmp_path, text, message):
    path = tmp_path / "ask.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_template(path)


def test_a_secret_that_is_not_set(monkeypatch):
    monkeypatch.delenv("NO_SUCH_TOKEN", raising=False)
    template = Template(url="http://127.0.0.1:1", headers={"X": "${NO_SUCH_TOKEN}"})
    with pytest.raises(DataError, match="NO_SUCH_TOKEN is not set"):
        drive([Case(query="q", case_id="1")], template, RequestPolicy(), ManualClock())


def test_the_command_asks_records_and_scores(serve, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    service = serve(q=[reply()], r=[reply("down", 404)])
    rows = [{"query": query, "case_id": query, "relevant_doc_ids": ["a"]} for query in "qr"]
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ["evaluate", "cases.jsonl", "--endpoint", service.url, "--no-judge"]
    assert main([*command, "--save-run", "run.jsonl", "--json", "live.json"]) == 0
    said = capsys.readouterr()
    assert "1 query failed" in said.out
    assert "such as 'r': 404 Not Found: down" in " ".join(said.out.split())
    assert said.err == ""  # no bar where there is no terminal, nor the blank line it leaves
    again = ["evaluate", "cases.jsonl", "--run", "run.jsonl", "--no-judge", "--json", "again.json"]
    assert main(again) == 0
    live, recorded = load(tmp_path / "live.json"), load(tmp_path / "again.json")
    assert live.scores == recorded.scores
    assert live.scores["hit@1"] == [1.0, None]  # unknown, not a miss
    assert live.scores["error"] == [0.0, 1.0]
    assert len(service.seen) == 2  # the second evaluation asked nothing
