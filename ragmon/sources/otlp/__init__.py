"""OpenTelemetry in: traces of existing RAG applications become queries, with no code change.

bytes → ``protobuf`` or ``jsonwire`` → ``Span`` → ``journal`` (durable, then acknowledged) →
``assembly`` (which traces are complete) → ``conventions`` (what a span says) → ``mapping``
(what a trace says) → ``QueryRecord``, ``Feedback`` and ``Label`` through the same sink as HTTP.
"""
