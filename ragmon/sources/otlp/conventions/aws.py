"""AWS SDKs by OpenTelemetry: calls of Bedrock's knowledge bases, of which they record no content.

Source: opentelemetry-instrumentation-botocore and -aws-sdk, ``rpc.service`` and ``rpc.method``.
"""

from ragmon.sources.otlp.reading.facts import MODEL, RETRIEVER, SpanFacts
from ragmon.sources.otlp.spans import Span

ORDER = 95
SPEAKS = frozenset({"rpc"})

_SERVICES = ("bedrockagentruntime",)
_ROLES = {
    "retrieve": RETRIEVER,
    "retrieveandgenerate": MODEL,
    "retrieveandgeneratestream": MODEL,
}


def role(span: Span) -> str:
    """By service and method."""
    attributes = span.attributes
    service = str(attributes.get("rpc.service", "")).replace(" ", "").lower()
    method = str(attributes.get("rpc.method", "")).rpartition("/")[2].lower()
    return _ROLES.get(method, "") if service in _SERVICES else ""


def read(span: Span, facts: SpanFacts) -> None:
    """Nothing but the role: a call of a service tells no content."""
