"""Guide to the metrics: meaning, good and fair values, and advice for poor ones."""

from fnmatch import fnmatchcase
from typing import Literal

from msgspec import Struct

Better = Literal["higher", "lower", "neither"]
Kind = Literal["proportion", "fraction", "quantity"]
"""proportion: 0 or 1 a case; fraction: in [0, 1]; quantity: any number."""


class Metric(Struct, frozen=True):
    """One column of scores."""

    name: str  # ``ndcg@5``, ``latency_ms/total``
    kind: Kind
    better: Better

    @property
    def base(self) -> str:
        """The name without k and variant: the key of ``GUIDES``."""
        return base_of(self.name)


class Guide(Struct, frozen=True):
    """Meaning of a metric, its bands, and advice when it is poor."""

    meaning: str
    advice: str = ""
    good: float | None = None  # from here on; for metrics where lower is better, up to here
    fair: float | None = None
    better: Better = "higher"
    kind: Kind = "fraction"


_RETRIEVE = "Retrieve more (raise k), add hybrid search, rewrite queries, check chunking."
_RANK = "Add a re-ranker, tune fusion weights, use a stronger embedding model."
_FEWER = "Lower k or cut by score; re-rank; filter by metadata."
_GROUND = "Tighten the prompt to the context, lower temperature, show fewer and better chunks."

GUIDES: dict[str, Guide] = {
    "precision": Guide("share of the first k results that are relevant; at most R/k", _FEWER),
    "recall": Guide("share of the relevant found among the first k", _RETRIEVE, 0.9, 0.7),
    "hit": Guide("something relevant among the first k", _RETRIEVE, 0.95, 0.8, kind="proportion"),
    "f1": Guide("balance of precision and recall at k", _FEWER),
    "ndcg": Guide("graded relevance, discounted by rank", _RANK, 0.8, 0.6),
    "average_precision": Guide("precision at each relevant result (MAP)", _RANK, 0.8, 0.5),
    "r_precision": Guide("precision at the number of relevant documents", _RANK, 0.7, 0.4),
    "reciprocal_rank": Guide("1 / rank of the first relevant result (MRR)", _RANK, 0.8, 0.5),
    "err": Guide("expected reciprocal rank where a reader stops", _RANK),
    "bpref": Guide("relevant above judged irrelevant; safe with gaps", _RANK, 0.8, 0.5),
    "auc_pr": Guide("area under the precision-recall curve", _RANK, 0.8, 0.5),
    "unjudged": Guide(
        "share of the first k without a relevance label",
        "Label them: other metrics count them as irrelevant.",
        *(0.1, 0.3, "lower"),
    ),
    "facet_recall": Guide("sides of the question covered by the first k", _RETRIEVE, 0.9, 0.7),
    "nugget_recall": Guide("facts that the chunks hold word by word", _RETRIEVE, 0.9, 0.7),
    "keyword_recall": Guide("keywords found in the chunks", _RETRIEVE, 0.9, 0.7),
    "keyword_rr": Guide("1 / rank of the first chunk with a keyword, mean", _RANK, 0.8, 0.5),
    "keyword_ndcg": Guide("chunks with the keyword ranked first, mean", _RANK, 0.8, 0.6),
    "exact_match": Guide("answer equals the truth", _GROUND, 0.6, 0.3, kind="proportion"),
    "token_f1": Guide("words shared by answer and truth", _GROUND, 0.6, 0.3),
    "rouge_l": Guide("longest common word sequence with the truth", _GROUND, 0.5, 0.25),
    "semantic_similarity": Guide("cosine of answer and truth", _GROUND, 0.85, 0.7),
    "query_similarity": Guide("cosine of answer and question", _GROUND, 0.7, 0.5),
    "context_utilization": Guide(
        "relevant chunks that the answer cites, or by a judge rests on",
        "Ask for citations of every source used; shorten the context.",
        *(0.8, 0.5),
    ),
    "faithfulness": Guide("answer supported by the chunks", _GROUND, 0.9, 0.7),
    "claim_recall": Guide("claims of a complete answer that it makes", _RETRIEVE, 0.8, 0.6),
    "context_recall": Guide("true answer supported by the chunks", _RETRIEVE, 0.9, 0.7),
    "answer_relevance": Guide(
        "answer addresses the question, graded",
        "State the question last in the prompt; check the query sent to the retriever.",
        *(0.85, 0.65),
    ),
    "completeness": Guide(
        "answer has all that the chunks say about the question", _RETRIEVE, 0.8, 0.6
    ),
    "conciseness": Guide("answer without filler", "Ask for a length; end boilerplate.", 0.8, 0.6),
    "context_precision": Guide("useful chunks ranked first, by a judge", _RANK, 0.8, 0.5),
    "noise_sensitivity": Guide(
        "share of faithfulness lost to irrelevant chunks",
        _FEWER,
        *(0.05, 0.2, "lower", "quantity"),
    ),
    "attribution": Guide("retrieved chunks that the answer cites", _FEWER, 0.6, 0.3),
    "zero_result": Guide(
        "nothing retrieved", _RETRIEVE, 0.01, 0.05, better="lower", kind="proportion"
    ),
    "error": Guide(
        "the query failed",
        "Look at the failed cases below.",
        *(0.0, 0.02, "lower", "proportion"),
    ),
    "uncited": Guide(
        "answers that cite nothing",
        "Ask for citations in the prompt.",
        *(0.05, 0.2, "lower", "proportion"),
    ),
    "cited_unretrieved": Guide(
        "citations of chunks never retrieved",
        "The model invents sources: constrain citation ids.",
        *(0.0, 0.02, "lower", "proportion"),
    ),
    "slow": Guide("slower than the limit", "", 0.01, 0.05, "lower", "proportion"),
    "low_score": Guide("best score below the limit", _RETRIEVE, 0.05, 0.2, "lower", "proportion"),
    "latency_ms": Guide("milliseconds", better="lower", kind="quantity"),
    "top_score": Guide("best retrieval score", better="neither", kind="quantity"),
    "failure_mode": Guide("share of queries that fail this way", better="lower", kind="proportion"),
    "retrieved_chunks": Guide("chunks retrieved", better="neither", kind="quantity"),
    "cited_chunks": Guide("chunks cited", better="neither", kind="quantity"),
}


def base_of(name: str) -> str:
    """``ndcg`` of ``ndcg@5``, ``faithfulness`` of ``faithfulness/grounding``."""
    return name.partition("@")[0].partition("/")[0]


def metric(name: str, kind: Kind | None = None) -> Metric:
    """A metric by its name; one without a guide is higher-is-better in [0, 1]."""
    guide = GUIDES.get(base_of(name), Guide(""))
    better = "neither" if name in ("failure_mode/none", "failure_mode/unknown") else guide.better
    return Metric(name, kind or guide.kind, better)


HEADLINES = (
    *("hit@5", "recall@5", "ndcg@5", "reciprocal_rank", "average_precision"),
    *("faithfulness/*", "answer_relevance/*", "completeness/*", "token_f1"),
    *("context_utilization", "error", "zero_result"),
)
"""Metrics that a gate without rules checks, and that reports show first."""


def is_headline(name: str) -> bool:
    """True if a metric matches one of ``HEADLINES``."""
    return any(fnmatchcase(name, pattern) for pattern in HEADLINES)


def band(metric: Metric, mean: float) -> str:
    """good, fair or poor; empty where no band is agreed on."""
    guide = GUIDES.get(metric.base)
    if guide is None or guide.good is None or guide.fair is None:
        return ""
    sign = -1.0 if metric.better == "lower" else 1.0
    if sign * mean >= sign * guide.good:
        return "good"
    return "fair" if sign * mean >= sign * guide.fair else "poor"
