"""``ragmon trace-doctor --watch``: each new trace once, until interrupted."""

import pytest

from ragmon.api_schema import SpanOutline, TraceExplanation
from ragmon.cli import main, trace_watch
from ragmon.cli.trace_watch import TraceWatch, stop_at_interrupt
from ragmon.errors import RemoteError

SPAN = SpanOutline(name="ask", depth=0, role="chain", ms=1.0, instrumentation="", failed=False)


def trace(name, spans=1):
    return TraceExplanation(
        trace_id=name, spans=[SPAN] * spans, queries=[], feedback=[], verdict="no query"
    )


def watched(*answers, first=0):
    """Names of the traces printed while the daemon gives these answers; then Ctrl-C."""
    shown, slept, left = [], [], list(answers)

    def newest():
        if not left:
            raise KeyboardInterrupt
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    watch = TraceWatch(newest, slept.append, lambda each: shown.append(each.trace_id))
    assert stop_at_interrupt(lambda: watch.run(first)) == 0
    assert slept == [2.0] * len(answers)
    return shown


def test_only_what_comes_after_the_start_is_printed_and_once():
    a, b, c = trace("a"), trace("b"), trace("c")
    assert watched([a], [a, b], [a, b], [b, c]) == ["b", "c"]


def test_the_newest_first_where_asked_for():
    a, b, c = trace("a"), trace("b"), trace("c")
    assert watched([a, b], [a, b, c], first=1) == ["b", "c"]
    assert watched([a, b], first=5) == ["a", "b"]


def test_a_trace_of_which_more_spans_came_is_printed_again(capsys):
    assert watched([], [trace("a")], [trace("a", spans=2)], [trace("a", spans=2)]) == ["a", "a"]
    assert "more spans of a came" in capsys.readouterr().err


def test_a_daemon_that_restarts_is_waited_for(capsys):
    away = RemoteError("no answer from http://x")
    assert watched([], away, away, [trace("a")]) == ["a"]
    remarks = capsys.readouterr().err
    assert remarks.count("no answer from http://x; trying on") == 1
    assert "the daemon answers again" in remarks


def test_a_token_that_is_refused_ends_it():
    with pytest.raises(RemoteError):
        watched([], RemoteError("answered 403", status=403))


def test_ctrl_c_in_the_command_is_no_failure(monkeypatch):
    def interrupted(self, first):
        raise KeyboardInterrupt

    monkeypatch.setattr(trace_watch.TraceWatch, "run", interrupted)
    assert main(["trace-doctor", "--watch"]) == 0
