"""450 human-rated RAG answers (MTRAG, third-party, used in place) through the daemon."""

import gzip
import json
import os
import tempfile
import time
import urllib.request
from pathlib import Path

from harness import daemon, post_all

DATA = (
    Path(os.environ.get("RAG_DATA", Path(__file__).parents[3] / "shared" / "data"))
    / "mtrag"
    / "human_eval.jsonl.gz"
)


def run() -> list[tuple[str, str, str]]:
    """Rows of (what, measured, goal)."""
    if not DATA.exists():
        return [("MTRAG replay", f"skipped: {DATA.name} is not there", "")]
    with gzip.open(DATA) as lines:
        rated = [json.loads(line) for line in lines]
    now = time.time()
    queries = [json.dumps(_record(each, now)).encode() for each in rated]
    labels = b"\n".join(json.dumps(_label(each)).encode() for each in rated)
    with tempfile.TemporaryDirectory() as folder, daemon(Path(folder)) as running:
        load = post_all(running.url, [b"\n".join(queries)])
        request = urllib.request.Request(running.url + "/v1/labels", labels)
        with urllib.request.urlopen(request) as answer:
            labelled = json.load(answer)["accepted"]
        report = json.loads(running.get("/v1/report?window=1h"))
    chunks = report["metrics"]["retrieved_chunks"]
    human = sum(_label(each)["faithful"] for each in rated) / len(rated)
    return [
        ("MTRAG answers stored", f"{load.accepted} of {len(rated)}, {labelled} labels", "all"),
        ("generators as slices", str(len(report["pipelines"][0]["slices"])), "3"),
        (
            "mean chunks",
            f"{chunks['estimate']:.2f} ({chunks['lower']:.2f}-{chunks['upper']:.2f})",
            "",
        ),
        ("mean human faithfulness", f"{human:.3f}", ""),
    ]


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
        print(f"{row[0]:40} {row[1]:50} {row[2]}")
