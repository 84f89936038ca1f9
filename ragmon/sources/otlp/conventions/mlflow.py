"""MLflow tracing: every value is a JSON string, even the type of the span."""

from ragmon.sources.otlp.reading.documents import passages_in, some_documents_in
from ragmon.sources.otlp.reading.facts import (
    CHAIN,
    EMBEDDING,
    EVALUATOR,
    MODEL,
    OTHER,
    RERANKER,
    RETRIEVER,
    TOOL,
    SpanFacts,
)
from ragmon.sources.otlp.reading.values import (
    answer,
    asked_in,
    integer,
    loads,
    name,
    number,
    question,
    tags_of,
)
from ragmon.sources.otlp.spans import ERROR, Attributes, Span

ORDER = 40
SPEAKS = frozenset({"mlflow"})

_ROLES = {
    "RETRIEVER": RETRIEVER, "RERANKER": RERANKER, "LLM": MODEL, "CHAT_MODEL": MODEL,
    "EMBEDDING": EMBEDDING, "CHAIN": CHAIN, "AGENT": CHAIN, "WORKFLOW": CHAIN, "TASK": CHAIN,
    "UNKNOWN": CHAIN, "TOOL": TOOL, "EVALUATOR": EVALUATOR, "GUARDRAIL": EVALUATOR,
}  # fmt: skip
_INPUT, _OUTPUT = "mlflow.spanInputs", "mlflow.spanOutputs"
_TAG = "mlflow.traceTag."


def role(span: Span) -> str:
    """By ``mlflow.spanType``."""
    kind = loads(span.attributes.get("mlflow.spanType"))
    if kind is None:
        return CHAIN if _INPUT in span.attributes else ""
    return _ROLES.get(str(kind).upper(), OTHER)


def read(span: Span, facts: SpanFacts) -> None:
    """Note the facts of a span."""
    attributes = span.attributes
    input_value, output_value = attributes.get(_INPUT), attributes.get(_OUTPUT)
    if facts.role in (CHAIN, RETRIEVER, RERANKER, TOOL):
        facts.set_lazily("query", question, input_value, _INPUT)
    if facts.role in (RETRIEVER, RERANKER) and span.status != ERROR:
        facts.set_lazily("documents", passages_in, output_value, _OUTPUT)
    elif facts.role == TOOL:
        facts.set_lazily("documents", some_documents_in, output_value, _OUTPUT)
        facts.set("tool_name", span.name, "name")
        facts.set_lazily("tool_text", answer, output_value, _OUTPUT)
    elif facts.role == MODEL:
        facts.set_lazily("query", asked_in, input_value, _INPUT)
        facts.set_lazily("answer", answer, output_value, _OUTPUT)
        _read_usage(span, facts)
    elif facts.role == CHAIN:
        facts.set_lazily("answer", answer, output_value, _OUTPUT)
        facts.set_lazily("passages", passages_in, output_value, _OUTPUT)
    _read_context(attributes, facts)


def _read_context(attributes: Attributes, facts: SpanFacts) -> None:
    """Note session, user and tags; MLflow exports session and user only as tags."""
    for field in ("session", "user"):
        for key in (f"mlflow.trace.{field}", f"{_TAG}{field}_id", f"{_TAG}{field}"):
            facts.set(f"{field}_id", name(loads(attributes.get(key))), key)
    tags = {key[len(_TAG) :]: value for key, value in attributes.items() if key.startswith(_TAG)}
    facts.set_lazily("tags", tags_of, tags or None, f"{_TAG}*")
    facts.set_lazily(
        "tags", tags_of, attributes.get("mlflow.trace.metadata"), "mlflow.trace.metadata"
    )


def _read_usage(span: Span, facts: SpanFacts) -> None:
    attributes = span.attributes
    for key in ("mlflow.llm.model", "mlflow.chat.model"):
        facts.set("model", name(loads(attributes.get(key))), key)
    key = "mlflow.chat.tokenUsage"
    usage = loads(attributes.get(key))
    if isinstance(usage, dict):
        facts.set("prompt_tokens", integer(usage.get("input_tokens")), key)
        facts.set("completion_tokens", integer(usage.get("output_tokens")), key)
    cost = loads(attributes.get("mlflow.llm.cost"))
    total = cost.get("total_cost", cost.get("total")) if isinstance(cost, dict) else cost
    facts.set("cost_usd", number(total), "mlflow.llm.cost")
    inputs = loads(attributes.get(_INPUT))
    if isinstance(inputs, dict):
        facts.set("requested_model", name(inputs.get("model")), _INPUT)
