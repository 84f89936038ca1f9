"""Jobs and outcomes of golden probes."""

from ragmon.evaluate.run.endpoint import Template
from ragmon.evaluate.run.probe import Golden, ProbeJob, ProbeOutcome


def job(url="http://127.0.0.1:9/ask", cases="golden.jsonl", **more):
    given = {"probe": "faq", "cases": str(cases), "template": Template(url=url, timeout_s=5.0)}
    given |= {"concurrency": 4, "attempts": 1, "ks": (1, 3), "most_cases": 100, "grounding": False}
    return ProbeJob(**given | more)


def scored(hits, name="run", ids=None):
    ids = ids or [f"c{at}" for at in range(len(hits))]
    scores = {"hit@3": tuple(hits), "precision@3": tuple(hits)}
    return Golden(name=name, created_at=0.0, case_ids=tuple(ids), scores=scores)


def outcome(golden, started_at=0.0, **more):
    return ProbeOutcome(probe="faq", started_at=started_at, duration_s=1.0, golden=golden, **more)
