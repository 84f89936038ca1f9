"""A trace that kills, hangs or fails the process that maps it costs only itself."""

import json
import subprocess
import sys

from ragmon.clock import SystemClock
from tests.support.daemons import Process
from tests.support.otlp import as_json, span
from tests.support.poison import Poison
from tests.support.wait import eventually

SOON = ("--otlp.linger", "0.05s", "--judge.grounding.enabled", "false")
GOOD = 20


def trace(number, **attributes):
    now_ns = int(SystemClock().now() * 1e9)
    question = {"openinference.span.kind": "CHAIN", "input.value": f"question {number}"}
    answer = {"output.value": "an answer"}
    return span(
        number,
        trace_id=number.to_bytes(16, "big"),
        attributes=question | answer | attributes,
        start_ns=now_ns,
        end_ns=now_ns + 1_000_000,
    )


def send(site, *spans):
    answer = site.post("/v1/traces", as_json(*spans), content_type="application/json")
    assert answer.status == 200


def queries(site):
    return site.get("/v1/report?window=1h").json["queries"]


def entries(site):
    return site.get("/v1/quarantine").json["entries"]


def command(site, *words):
    """``ragmon quarantine`` against a daemon."""
    return subprocess.run(
        [sys.executable, "-m", "ragmon", "quarantine", *words, "--url", site.url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def serve(tmp_path, poison, *flags):
    return Process(tmp_path / "data", *SOON, *flags, environment=poison.environment)


def test_a_trace_that_kills_the_process_is_set_aside_and_all_others_are_mapped(tmp_path):
    poison = Poison(tmp_path / "poison")
    with serve(tmp_path, poison) as site:
        good = [trace(number) for number in range(1, GOOD + 1)]
        send(site, *good[:10], trace(99, **{"poison.kind": "kill"}), *good[10:])
        site.process.wait(30)
    with serve(tmp_path, poison) as site:
        eventually(lambda: entries(site), "the trace is in quarantine", 60)
        eventually(lambda: queries(site) == GOOD, "all others are mapped", 30)
        [entry] = entries(site)
        assert (entry["stage"], entry["reason"]) == ("map", "killed")
        assert entry["name"] == (99).to_bytes(16, "big").hex()
        assert "SIGKILL" in entry["error"]
        assert site.get("/livez").status == 200
        metrics = site.get("/metrics").text
        assert 'ragmon_quarantined_total{reason="killed",stage="map"} 1\n' in metrics
        assert 'ragmon_quarantine_entries{stage="map"} 1\n' in metrics
        site.kill()
    with serve(tmp_path, poison) as site:
        send(site, trace(30))
        eventually(lambda: queries(site) == GOOD + 1, "new traces are mapped", 30)
        assert len(entries(site)) == 1
        failed = command(site, "retry", entries(site)[0]["id"])
        assert failed.returncode == 1
        assert "SIGKILL" in failed.stdout
        assert entries(site)[0]["attempts"] == 1
        assert site.get("/livez").status == 200
        poison.cure()
        done = command(site, "retry", "--all", "--stage", "map")
        assert done.returncode == 0, done.stderr
        assert queries(site) == GOOD + 2
        assert entries(site) == []


def test_a_trace_that_takes_too_long_or_fails_is_set_aside_while_ragmon_runs(tmp_path):
    poison = Poison(tmp_path / "poison")
    with serve(tmp_path, poison, "--otlp.mapping_timeout", "1s") as site:
        spins, raises = {"poison.kind": "spin"}, {"poison.kind": "raise"}
        send(site, trace(1), trace(98, **spins), trace(99, **raises), trace(2))
        eventually(lambda: len(entries(site)) == 2, "both are in quarantine", 30)
        assert sorted(entry["reason"] for entry in entries(site)) == ["defect", "timeout"]
        eventually(lambda: queries(site) == 2, "the others are mapped", 30)
        send(site, trace(3))
        eventually(lambda: queries(site) == 3, "later ones are mapped", 30)
        shown = command(site, "show", entries(site)[0]["id"], "--json")
        content = json.loads(shown.stdout)["content"]
        assert content["spans"][0]["attributes"]["input.value"].startswith("question 9")
        deleted = command(site, "delete", "--all")
        assert deleted.returncode == 0
        assert "Nothing is in quarantine" in command(site, "list").stdout


def test_a_kill_while_traces_are_mapped_loses_and_doubles_none(tmp_path):
    poison = Poison(tmp_path / "poison")
    sent = 0
    for _ in range(2):
        with serve(tmp_path, poison) as site:
            for _ in range(5):
                send(site, *(trace(sent + each) for each in range(1, 11)))
                sent += 10
            site.kill()
    with serve(tmp_path, poison) as site:
        eventually(lambda: queries(site) == sent, "each is counted", 60)
        assert entries(site) == []
