"""What an application sees: calls that return, stages that are timed, counts that add up."""

import asyncio
import threading
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmon.client import Monitor, Options
from ragmon.client.fake import FakeServer
from ragmon.clock import ManualClock
from ragmon.records import Feedback, Label, QueryRecord


@pytest.fixture
def server():
    with FakeServer() as running:
        yield running


@pytest.fixture
def monitor(server):
    with Monitor(server.url, token="t", clock=ManualClock(1e9)) as running:
        yield running


def sent(server, endpoint="queries"):
    types = {"queries": QueryRecord, "feedback": Feedback, "labels": Label}
    return msgspec.convert(server.records[endpoint], list[types[endpoint]])


def test_the_three_lines(server):
    monitor = Monitor(server.url, token="t")
    query_id = monitor.log_query(
        query="Who pays?",
        answer="The council.",
        retrieved_docs=[{"id": "a", "score": 0.5, "text": "The council pays."}],
        latency_ms=412.0,
        citations=["a"],
        user_feedback="positive",
        pipeline="support",
        version="2026.1",
        tags={"tenant": "acme"},
    )
    monitor.log_feedback(query_id, "negative", comment="no")
    monitor.log_label(query_id, relevant_ids=["a"], scores={"tone": 0.5}, labeller="jo")
    assert monitor.flush()
    (record,), (feedback,), (label,) = (sent(server, each) for each in server.records)
    assert (record.query_id, record.query, record.answer) == (query_id, "Who pays?", "The council.")
    assert (record.latency_ms.total, record.citations, record.feedback) == (412.0, ["a"], 1.0)
    assert (record.pipeline, record.version, record.tags) == (
        "support",
        "2026.1",
        {"tenant": "acme"},
    )
    assert record.chunks[0].text == "The council pays."
    assert (feedback.query_id, feedback.rating, feedback.comment) == (query_id, -1.0, "no")
    assert (label.query_id, label.relevant_ids, label.labeller) == (query_id, ["a"], "jo")
    assert label.scores == {"tone": 0.5}
    assert monitor.stats().sent == monitor.stats().logged == 3
    assert monitor.close()


def test_records_are_stamped_when_they_are_logged(server, monitor):
    monitor.log_query("a")
    monitor.log_query("b", timestamp=5.0)
    monitor.flush()
    assert [record.timestamp for record in sent(server)] == [1e9, 5.0]


def test_the_monitor_gives_what_every_record_shares(server):
    with Monitor(server.url, pipeline="p", version="v", environment="e") as monitor:
        monitor.log_query("a")
        monitor.log_query("b", pipeline="other", version=None)
    shared = [(each.pipeline, each.version, each.environment) for each in sent(server)]
    assert shared == [("p", "v", "e"), ("other", "v", "e")]


def test_an_id_of_the_application_is_kept(server, monitor):
    assert monitor.log_query("a", query_id="mine") == "mine"
    made_up = monitor.log_query("b", query_id=["not", "an", "id"])
    monitor.flush()
    assert [record.query_id for record in sent(server)] == ["mine", made_up]


def test_a_query_and_its_stages_are_timed(server, monitor):
    clock = monitor._clock
    with monitor.query("Who pays?", pipeline="support") as q:
        clock.sleep(0.001)
        with q.retrieval():
            clock.sleep(0.25)
        with q.retrieval():
            clock.sleep(0.25)
        q.retrieved([("a", 0.5)])
        with q.generation():
            clock.sleep(1.0)
        q.answered("The council.", citations=["a"])
        q.record(model="m", tokens={"prompt": 1, "completion": 2})
    monitor.flush()
    (record,) = sent(server)
    assert record.query_id == q.query_id
    assert record.timestamp == 1e9
    assert record.latency_ms.total == pytest.approx(1501.0)
    assert record.latency_ms.retrieval == pytest.approx(500.0)
    assert record.latency_ms.generation == pytest.approx(1000.0)
    assert (record.pipeline, record.answer, record.citations) == (
        "support",
        "The council.",
        ["a"],
    )
    assert (record.model, record.tokens.prompt, record.error) == ("m", 1, None)


def test_a_timed_query_may_have_an_id_of_the_application(server, monitor):
    with monitor.query("a", query_id="mine") as q:
        assert q.query_id == "mine"
    monitor.flush()
    assert [record.query_id for record in sent(server)] == ["mine"]


def test_a_stage_that_was_not_entered_is_unknown(server, monitor):
    with monitor.query("a"):
        pass
    monitor.flush()
    (record,) = sent(server)
    assert record.latency_ms.retrieval is None
    assert record.chunks is None
    assert record.answer is None


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (LookupError("index is down"), "LookupError: index is down"),
        (asyncio.CancelledError(), "CancelledError: "),
        (KeyboardInterrupt(), "KeyboardInterrupt: "),
    ],
)
def test_an_exception_passes_through_and_is_recorded(server, monitor, raised, error):
    def ask():
        with monitor.query("a") as q, q.retrieval():
            monitor._clock.sleep(0.5)
            raise raised

    with pytest.raises(type(raised)) as caught:
        ask()
    assert caught.value is raised
    monitor.flush()
    (record,) = sent(server)
    assert record.error == error
    assert record.latency_ms.retrieval == 500.0
    assert record.chunks is None


class Hostile:
    """Raises whatever is asked of it."""

    def __getattribute__(self, name):
        if name == "__class__" and not object.__getattribute__(self, "classless"):
            return Hostile
        raise RuntimeError(name)

    def __init__(self, classless=False):
        self.classless = classless

    def __str__(self):
        raise RuntimeError("str")


class HostileError(Exception):
    def __str__(self):
        raise RuntimeError("str")


def test_an_exception_that_cannot_be_said_still_passes_through(server, monitor):
    with pytest.raises(HostileError), monitor.query("a"):
        raise HostileError
    monitor.flush()
    assert len(sent(server)) == 1
    assert monitor.stats().bad_arguments == {"call": 1}


ARGUMENTS = [
    "query", "answer", "retrieved_docs", "citations", "tags", "latency_ms", "user_feedback",
    "query_id", "error", "other",
]  # fmt: skip


@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize(
    "value", [Hostile(), [Hostile()], {"id": Hostile()}], ids=["it", "list", "dict"]
)
def test_a_hostile_argument_costs_itself(server, monitor, argument, value):
    monitor.log_query(**{argument: value})
    assert monitor.flush()
    assert len(sent(server)) == 1
    stats = monitor.stats()
    assert stats.dropped == {}
    assert stats.sent == 1


anything = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text() | st.binary() | st.builds(Hostile),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=4,
)


names = st.sampled_from(["answer", "timestamp", "version", "other"])


@settings(deadline=None)
@given(arguments=st.dictionaries(names, anything), rating=anything, identity=anything)
def test_no_call_ever_raises(arguments, rating, identity):
    monitor = Monitor(None)
    if rating is None:
        rating = Hostile(classless=True)
    assert isinstance(monitor.log_query(**arguments), str)
    monitor.log_feedback(identity, rating, comment=rating)
    monitor.log_label(identity, grades=rating, faithful=rating, scores=rating)
    with monitor.query(identity, **arguments) as q:
        q.retrieved(rating)
        q.answered(rating, citations=rating)
        q.record(**arguments)
    assert monitor.stats().logged == 4


def test_a_bad_argument_is_logged_once(server, monitor, caplog):
    for _ in range(3):
        monitor.log_query("a", user_feedback="meh")
    monitor.flush()
    assert [record.name for record in caplog.records] == ["ragmon.client"]
    assert monitor.stats().bad_arguments == {"user_feedback": 3}


def test_without_a_url_logging_is_off():
    monitor = Monitor("")
    monitor.log_query("a")
    assert monitor.flush(0.0)
    assert monitor.stats().dropped == {"disabled": 1}
    assert monitor.close()
    assert "ragmon-client" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize("url", ["localhost:8321", "ftp://ragmon"])
def test_a_url_that_cannot_be_used_is_said_at_once(url):
    with pytest.raises(ValueError, match="http"):
        Monitor(url)


def test_threads_log_side_by_side(server):
    with Monitor(server.url, options=Options(max_batch_records=16)) as monitor:
        begin = threading.Barrier(8)

        def work(name):
            begin.wait()
            for number in range(100):
                monitor.log_query(f"{name}-{number}")

        threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert monitor.flush()
    queries = [record.query for record in sent(server)]
    assert sorted(queries) == sorted(
        f"{name}-{number}" for name in range(8) for number in range(100)
    )
    for name in range(8):
        own = [query for query in queries if query.startswith(f"{name}-")]
        assert own == [f"{name}-{number}" for number in range(100)]


def test_coroutines_log_as_they_are(server):
    async def answer(monitor, name):
        with monitor.query(name) as q, q.generation():
            await asyncio.sleep(0)
        return q.query_id

    async def main(monitor):
        return await asyncio.gather(*(answer(monitor, str(each)) for each in range(50)))

    with Monitor(server.url) as monitor:
        ids = asyncio.run(main(monitor))
    assert sorted(record.query_id for record in sent(server)) == sorted(ids)


def test_documents_are_read_as_they_were(server, monitor):
    document = SimpleNamespace(id="a", page_content="before", metadata={})
    monitor.log_query("q", retrieved_docs=[document])
    document.page_content = "after"
    monitor.flush()
    assert sent(server)[0].chunks[0].text == "before"
