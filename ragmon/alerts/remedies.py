"""Name and remedies of each alert, by metric; remedies in the order worth trying."""

from msgspec import Struct

from ragmon.detectors import AlertKey
from ragmon.detectors.losses import family


class Remedy(Struct, frozen=True):
    """The field's advice for one metric."""

    name: str  # of the alert, and of its runbook
    tries: tuple[str, ...]


REMEDIES = {
    "traffic": Remedy(
        "RagmonNoTraffic",
        (
            "Check that the application is up and that its users reach it",
            "Check that its logging client reaches ragmon: the client's spool grows if it does not",
            "Look for a deployment or a credential that changed at the time of the last query",
        ),
    ),
    "judged": Remedy(
        "RagmonNoJudgements",
        (
            "Look at ragmon_judged_total by outcome: time-outs and refusals name the reason",
            "Look at the judge's budget: ragmon_judge_budget_remaining_ratio",
        ),
    ),
    "error": Remedy(
        "RagmonErrors",
        (
            "Read the errors of the failing queries: most share one cause",
            "Check the vector store, the model endpoint, their quotas and time-outs",
            "Roll back what was deployed at the time of the change",
        ),
    ),
    "zero_result": Remedy(
        "RagmonZeroResults",
        (
            "Check that the index exists, is complete and is the one that the retriever queries",
            "Check filters and permissions: a filter on a tag that no document has finds nothing",
            "Check the similarity threshold against the scores of the embedding in use",
            "Read the failing queries: a new topic or language needs documents",
        ),
    ),
    "hit": Remedy(
        "RagmonHitRate",
        (
            "Check index coverage: were documents removed, or not embedded again after a change?",
            "Check that queries and documents are embedded by the same model and version",
            "Look at chunking: an answer that is cut in two is found by neither half",
            "If relevant chunks are found but rank low: the reranker, query expansion",
        ),
    ),
    "low_score": Remedy(
        "RagmonLowScores",
        (
            "Look for embedding drift: a changed model moves all scores",
            "Read the queries: scores fall when users ask about what the index does not hold",
            "Check query rewriting and expansion",
        ),
    ),
    "attribution": Remedy(
        "RagmonAttribution",
        (
            "Retrieve fewer chunks: a smaller k leaves less that is not used",
            "Make chunks better: shorter, about one thing, without duplicates",
            "Check that the prompt still asks for citations",
        ),
    ),
    "uncited": Remedy(
        "RagmonUncited",
        (
            "Check that the prompt still asks for citations, and that their form is still parsed",
            "Check whether answers come from the model's memory: compare them with the chunks",
        ),
    ),
    "cited_unretrieved": Remedy(
        "RagmonStrayCitations",
        (
            "Check that chunk ids in the prompt and in the log are the same",
            "Invented citations: lower the temperature, number the chunks, reject unknown ids",
        ),
    ),
    "grounding": Remedy(
        "RagmonGrounding",
        (
            "Compare the worst answers with their chunks: invented, or retrieved and misread?",
            "Check prompt and model version: did either change at the time of the change?",
            "Check the order and length of the context: models overlook the middle of a long one",
        ),
    ),
    "faithfulness": Remedy(
        "RagmonFaithfulness",
        (
            "Check prompt and model version: did either change at the time of the change?",
            "Check the order and length of the context: models overlook the middle of a long one",
            "Let the model decline when the chunks hold no answer",
            "Check that the judge itself did not change: its version is in the verdicts",
        ),
    ),
    "custom_score": Remedy(
        "RagmonCustomScore",
        (
            "Read the answers that the judge graded worst: their rationales are on their pages",
            "Check prompt and model version: did either change at the time of the change?",
            "Check that the judge itself did not change: its version is in the verdicts",
        ),
    ),
    "refusal": Remedy(
        "RagmonRefusals",
        (
            "Read what is declined: questions that no document answers, or such that one does?",
            "Check prompt, model and its safety settings: did one change at that time?",
            "Look at hit rate and zero-result rate: what finds nothing has to be declined",
        ),
    ),
    "false_refusal": Remedy(
        "RagmonFalseRefusals",
        (
            "Check prompt, model and its safety settings: did one change at that time?",
            "Check that the chunks reach the model: their order, and what a long context loses",
            "Loosen what the prompt says about when to decline",
        ),
    ),
    "positive_feedback": Remedy(
        "RagmonFeedback",
        (
            "Read the answers that were disliked, by slice: is it one topic or one group?",
            "Look at hit rate and grounding at the same time: which of them moved first?",
            "Check the length, language and tone of the answers",
        ),
    ),
    "slow": Remedy(
        "RagmonSlow",
        (
            "See which stage got slower: retrieval (index, filters) or generation (model, length)",
            "Look for retries and time-outs, and at the provider's status",
            "Shorten the context: fewer or smaller chunks",
        ),
    ),
    "latency": Remedy(
        "RagmonLatency",
        (
            "See which stage got slower: retrieval (index, filters) or generation (model, length)",
            "Only the slowest queries grew slower: look at long contexts, cold caches, retries",
        ),
    ),
    "mode_retrieval": Remedy(
        "RagmonRetrievalFailures",
        (
            "See what retrieval returned: nothing, nothing relevant, or only low scores",
            "Check that the index exists, is complete and is the one that the retriever queries",
            "Check that queries and documents are embedded by the same model and version",
        ),
    ),
    "mode_ranking": Remedy(
        "RagmonRankingFailures",
        (
            "The relevant chunk is found, but low: check the reranker and its model",
            "Check query rewriting and expansion: they change what ranks first",
            "Give the model more chunks until the ranking is repaired",
        ),
    ),
    "mode_generation": Remedy(
        "RagmonGenerationFailures",
        (
            "Good chunks, bad answers: did prompt or model version change?",
            "Check the order and length of the context: models overlook the middle of a long one",
            "Let the model decline when the chunks hold no answer",
        ),
    ),
    "repeat": Remedy(
        "RagmonRetryStorm",
        (
            "Read the questions that are repeated and who asks them: one script, or everybody?",
            "Check whether the first attempts fail: clients retry what has no answer",
            "Let the client wait longer between attempts and stop after a few; cache answers",
        ),
    ),
    "latency_p50": Remedy(
        "RagmonLatencyMedian",
        (
            "All queries grew slower: look at the model or embedding in use, and at load",
            "See which stage got slower: retrieval (index, filters) or generation (model, length)",
        ),
    ),
}

NO_FEEDBACK = Remedy(
    "RagmonNoFeedback",
    (
        "Check that the rating buttons are shown and that their events are sent",
        "Check that ratings carry the query ids that ragmon received",
    ),
)


def remedy_of(key: AlertKey) -> Remedy:
    """The advice for an alert."""
    if key.kind == "no_data" and key.stream.metric == "positive_feedback":
        return NO_FEEDBACK
    return REMEDIES[family(key.stream.metric)]


def name_of(key: AlertKey) -> str:
    """Name of an alert, the same whichever detector raised it."""
    return remedy_of(key).name


def runbook_of(key: AlertKey) -> str:
    """Path of its runbook below ``deploy``."""
    return f"runbooks/{remedy_of(key).name}.md"
