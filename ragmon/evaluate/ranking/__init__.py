"""Ranking metrics, exact against trec_eval.

The functions here score one query: the ranking best first, and what is relevant. ``batch`` holds
the same over arrays (``JudgedRankings`` makes them), ``curves`` what is drawn, ``texts`` what is
judged by content rather than by id.

Edge cases, the same everywhere:

- *Fewer than k results*: precision divides by k all the same; the missing ones are misses.
- *Nothing relevant*: 0, as trec_eval has it. An evaluation leaves such cases out of its means.
- *Unjudged results* count as irrelevant, except in ``bpref`` (passed over) and ``unjudged``.
- *Repeats* of an id fill their rank and earn nothing: the reader sees the same text twice.
- *Ties* are the caller's: a ranking is an order. ``ranked`` orders scores as trec_eval does.
- *Grades* above 0 are relevant; below 0 they say nothing, neither relevant nor judged irrelevant.
"""

from ragmon.evaluate.ranking import batch
from ragmon.evaluate.ranking.blocks import JudgedRankings, judge, ranked
from ragmon.evaluate.ranking.curves import (
    ELEVEN_LEVELS,
    auc_pr,
    curve,
    diminishing_k,
    eleven_point_precision,
    interpolated_precision,
    precision_recall_points,
)
from ragmon.evaluate.ranking.single import (
    average_precision,
    bpref,
    context_precision,
    dcg,
    err,
    f_beta,
    hit,
    mean_average_precision,
    mean_reciprocal_rank,
    ndcg,
    precision,
    r_precision,
    recall,
    reciprocal_rank,
    unjudged,
)
from ragmon.evaluate.ranking.texts import (
    chunk_attribution,
    facet_recall,
    keyword_ndcg,
    keyword_recall,
    keyword_reciprocal_rank,
    nugget_recall,
)

__all__ = [
    "ELEVEN_LEVELS",
    "JudgedRankings",
    "auc_pr",
    "average_precision",
    "batch",
    "bpref",
    "chunk_attribution",
    "context_precision",
    "curve",
    "dcg",
    "diminishing_k",
    "eleven_point_precision",
    "err",
    "f_beta",
    "facet_recall",
    "hit",
    "interpolated_precision",
    "judge",
    "keyword_ndcg",
    "keyword_recall",
    "keyword_reciprocal_rank",
    "mean_average_precision",
    "mean_reciprocal_rank",
    "ndcg",
    "nugget_recall",
    "precision",
    "precision_recall_points",
    "r_precision",
    "ranked",
    "recall",
    "reciprocal_rank",
    "unjudged",
]
