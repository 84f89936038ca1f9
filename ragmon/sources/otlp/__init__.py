"""OpenTelemetry in: traces of existing RAG applications become queries, with no code change.

bytes → ``wire`` (protobuf or JSON) → ``spans`` → ``receiver.journal`` (durable, then acknowledged)
→ ``receiver.assembly`` (complete traces) → ``conventions`` (facts of a span) → ``traces.mapping``
(queries of a trace) → ``QueryRecord``, ``Feedback`` and ``Label`` through the same sink as HTTP.
"""
