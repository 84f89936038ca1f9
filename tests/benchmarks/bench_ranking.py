"""Scoring 100 000 queries of 100 results: ratios to trec_eval (C) and ranx (numba).

    python tests/benchmarks/bench_ranking.py [queries]

All three start from the same dictionaries of scores and judgements, and give every query's value
of the same measures. ranx gets its own containers built and its functions compiled beforehand,
and that time is shown apart; it is not in the lock (numba), so `pip install ranx` for its rows.
"""

import importlib
import importlib.util
import sys
import time
import warnings

import numpy as np
import pytrec_eval

from ragmon.evaluate import ranking
from ragmon.evaluate.ranking import batch

RESULTS, JUDGED, BLOCK = 100, 20, 2048
OURS = {
    **{f"P_{k}": lambda j, k=k: batch.precision(j, k) for k in (5, 10, 20)},
    **{f"recall_{k}": lambda j, k=k: batch.recall(j, k) for k in (5, 10, 20)},
    **{f"success_{k}": lambda j, k=k: batch.hit(j, k) for k in (5, 10, 20)},
    **{f"ndcg_cut_{k}": lambda j, k=k: batch.ndcg(j, k) for k in (5, 10, 20)},
    "map": batch.average_precision,
    "recip_rank": batch.reciprocal_rank,
    "Rprec": batch.r_precision,
    "bpref": batch.bpref,
}
TREC = {
    *("P.5,10,20", "recall.5,10,20", "success.5,10,20", "ndcg_cut.5,10,20"),
    *("map", "recip_rank", "Rprec", "bpref"),
}
RANX = [
    *(f"{name}@{k}" for name in ("precision", "recall", "hit_rate", "ndcg") for k in (5, 10, 20)),
    *("map", "mrr", "r-precision", "bpref"),
]


def collection(queries, seed=7):
    """Scores with about one tie in ten rankings; 20 judged, a third of them relevant."""
    rng = np.random.default_rng(seed)
    qrels, run = {}, {}
    for number in range(queries):
        ids = [f"d{each}" for each in rng.choice(1_000_000, RESULTS, replace=False).tolist()]
        scores = np.round(rng.random(RESULTS), 5)
        run[f"q{number}"] = dict(zip(ids, scores.tolist(), strict=True))
        grades = rng.choice([0, 0, 0, 0, 1, 2], JUDGED).tolist()
        unseen = [f"u{number}-{each}" for each in range(JUDGED // 2)]
        qrels[f"q{number}"] = dict(zip(unseen + ids[: JUDGED // 2], grades, strict=True))
    return qrels, run


def score(qrels, run):
    """The measures by name, a block of queries at a time, so that memory stays small."""
    values = {name: [] for name in OURS}
    queries = list(run)
    for start in range(0, len(queries), BLOCK):
        block = queries[start : start + BLOCK]
        judged = ranking.judge([run[each] for each in block], [qrels[each] for each in block])
        for name, measure in OURS.items():
            values[name].append(measure(judged))
    return {name: np.concatenate(parts) for name, parts in values.items()}


def timed(work):
    """(seconds of CPU, result)."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def main(queries):
    qrels, run = collection(queries)
    ours_s, ours = timed(lambda: score(qrels, run))
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, TREC)
    trec_s, trec = timed(lambda: evaluator.evaluate(run))
    worst = max(
        abs(found - trec[query][name])
        for name, values in ours.items()
        for query, found in zip(run, values.tolist(), strict=True)
    )
    del trec
    print(f"{queries} queries x {RESULTS} results, {len(OURS)} measures, CPU seconds")
    print(f"ragmon       {ours_s:8.2f}   largest difference from trec_eval {worst:.1e}")
    print(f"pytrec_eval  {trec_s:8.2f}   ragmon / pytrec_eval = {ours_s / trec_s:.2f}")
    if importlib.util.find_spec("ranx"):
        compare_with_ranx(qrels, run, ours_s)
    else:
        print("ranx         skipped: not installed")
    return ours_s / trec_s, worst


def compare_with_ranx(qrels, run, ours_s):
    ranx = importlib.import_module("ranx")
    warnings.simplefilter("ignore")
    build_s, (theirs_qrels, theirs_run) = timed(lambda: (ranx.Qrels(qrels), ranx.Run(run)))
    few = {query: run[query] for query in list(run)[:10]}
    ranx.evaluate(ranx.Qrels({q: qrels[q] for q in few}), ranx.Run(few), RANX)  # compiles
    ranx_s, _ = timed(lambda: ranx.evaluate(theirs_qrels, theirs_run, RANX))
    print(f"ranx         {ranx_s:8.2f}   ragmon / ranx = {ours_s / ranx_s:.2f}")
    total_s = build_s + ranx_s
    print(f"ranx, building included {total_s:8.2f}   ragmon / that = {ours_s / total_s:.2f}")


if __name__ == "__main__":
    ratio, worst = main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
    sys.exit(0 if ratio <= 2.0 and worst < 1e-9 else 1)
