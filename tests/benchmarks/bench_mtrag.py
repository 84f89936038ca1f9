"""450 human-rated RAG answers (MTRAG, third-party, used in place) through the daemon."""

import gzip
import json
import os
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from harness import Daemon, daemon, post_all

sys.path.append(str(Path(__file__).parents[2]))
from tests.support.llm_server import Chat, serving, with_fields

DATA = (
    Path(os.environ.get("RAG_DATA", Path(__file__).parents[3] / "shared" / "data"))
    / "mtrag"
    / "human_eval.jsonl.gz"
)
SAMPLE = 100
Rows = list[tuple[str, str, str]]


def run() -> Rows:
    """Rows of (what, measured, goal)."""
    if not DATA.exists():
        return [("MTRAG replay", f"skipped: {DATA.name} is not there", "")]
    with gzip.open(DATA) as lines:
        rated = [json.loads(line) for line in lines]
    grades = {each["answer"].strip(): grade(each) for each in rated}
    with serving() as llm, tempfile.TemporaryDirectory() as folder:
        llm.always = lambda chat: with_fields(faithfulness=_said(chat, grades))(chat)
        with daemon(Path(folder), *_flags(llm.url)) as running:
            return _measured(running, rated)


def grade(rated: dict) -> int:
    """What people say of an answer, on the rubric's scale from 1 to 5."""
    return 1 + round(4 * _label(rated)["faithful"])


def _flags(url: str) -> list[str]:
    given = {
        "judge.llm.base_url": url,
        "judge.llm.model": "people",
        "judge.llm.modes": "[rubric]",
        "judge.every": "500ms",
        "judge.grounding.max_cpu": "1",
        "judge.calibrate_every": "500ms",
        "sampling.judgements_per_hour": "1000",
        "sampling.least": "0.000001",
    }
    return [word for key, value in given.items() for word in (f"--{key}", value)]


def _said(chat: Chat, grades: dict[str, int]) -> int:
    return grades[chat.blocks["answer"].strip()]


def _measured(running: Daemon, rated: list[dict]) -> Rows:
    now = time.time()
    queries = [json.dumps(_record(each, now)).encode() for each in rated]
    load = post_all(running.url, [b"\n".join(queries)])
    _until(lambda: _metrics(running).get("grounding_coverage", {}).get("estimate") == 1.0)
    before = _metrics(running)
    _post(running, "/v1/judge", json.dumps({"since": "1h", "limit": SAMPLE}).encode())
    _until(lambda: not json.loads(running.get("/v1/judge"))["waiting"])
    sampled = _metrics(running)
    people = sum(grade(each) - 1 for each in rated) / 4 / len(rated)
    labels = b"\n".join(json.dumps(_label(each)).encode() for each in rated)
    labelled = json.loads(_post(running, "/v1/labels", labels))["accepted"]
    report = json.loads(running.get("/v1/report?window=1h"))
    agreed = report["judge_agreement"]["grounding"]
    return [
        ("MTRAG answers stored", f"{load.accepted} of {len(rated)}, {labelled} labels", "all"),
        ("generators as slices", str(len(report["pipelines"][0]["slices"])), "3"),
        ("mean chunks", _shown(before["retrieved_chunks"]), ""),
        ("faithfulness by people, all answers, graded 1 to 5", f"{people:.3f}", ""),
        (
            f"estimated from {SAMPLE} of the same grades, drawn by ragmon",
            _shown(sampled["faithfulness/llm"]),
            "holds it (95 %)",
        ),
        ("faithfulness by people, the labels", _shown(report["metrics"]["faithfulness/human"]), ""),
        ("by the embedded judge, as shipped", _shown(before["faithfulness/grounding"]), ""),
        ("agreement with labels, balanced accuracy", _figure(agreed["balanced_accuracy"]), ""),
        ("agreement with labels, Cohen's kappa", _figure(agreed["kappa"]), ""),
    ]


def _metrics(running: Daemon) -> dict:
    return json.loads(running.get("/v1/report?window=1h"))["metrics"]


def _shown(found: dict) -> str:
    return f"{_figure(found)}, n = {found['samples']}"


def _figure(found: dict) -> str:
    return f"{found['estimate']:.3f} ({found['lower']:.3f}-{found['upper']:.3f})"


def _post(running: Daemon, path: str, body: bytes) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(running.url + path, body)) as answer:
        return answer.read()


def _until(done: Callable[[], bool], timeout_s: float = 120.0) -> None:
    until = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > until:
            raise TimeoutError(f"not done within {timeout_s:g} s")
        time.sleep(0.2)


def _record(rated: dict, now: float) -> dict:
    chunks = [
        {"id": f"{rated['group']}#{at}", "text": text} for at, text in enumerate(rated["context"])
    ]
    return {
        "query_id": rated["id"],
        "timestamp": now - 60,
        "pipeline": "mtrag",
        "version": rated["generator"] or "reference",
        "query": rated["query"],
        "answer": rated["answer"],
        "chunks": chunks,
    }


def _label(rated: dict) -> dict:
    votes = rated["faithfulness_votes"]
    return {
        "query_id": rated["id"],
        "labeller": "human",
        "faithful": (sum(votes) / len(votes) - 1) / 3,
    }


if __name__ == "__main__":
    for row in run():
        print(f"{row[0]:52} {row[1]:40} {row[2]}")
