"""Component of Haystack pipelines.

pipeline.add_component("ragmon", QueryLogger(monitor, pipeline="helpdesk"))
pipeline.connect("retriever.documents", "ragmon.documents")
pipeline.connect("llm.replies", "ragmon.replies")
pipeline.run({"ragmon": {"query": question}, …})
"""
# Haystack reads annotations when the class is made, so they are no text here.

import time
from typing import Any, Dict, List, Optional  # noqa: UP035 - as Haystack compares them

from haystack import Document, component

from ragmon.client.monitor import Monitor


@component
class QueryLogger:
    """Logs each run of a pipeline as a query.

    Args:
        monitor: logs the queries.
        **fields: of every query, such as ``pipeline``; see ``QueryFields``.
    """

    def __init__(self, monitor: Monitor, **fields: Any) -> None:
        self._monitor = monitor
        self._fields = fields

    @component.output_types(query_id=str)  # type: ignore[untyped-decorator]
    def run(
        self,
        query: str,
        documents: Optional[List[Document]] = None,  # noqa: UP006
        replies: Optional[List[Any]] = None,  # noqa: UP006
        started: Optional[float] = None,
    ) -> Dict[str, str]:  # noqa: UP006
        """Log a query.

        Args:
            query: the question.
            documents: of the retriever or the ranker, best first.
            replies: of the generator, texts or messages; the first one is the answer.
            started: unix seconds when the run began, for the latency: ``time.time()``.
        """
        answer = replies[0] if replies else None
        query_id = self._monitor.log_query(
            query,
            getattr(answer, "text", answer),
            documents,
            latency_ms=None if started is None else max(0.0, time.time() - started) * 1000.0,
            **self._fields,
        )
        return {"query_id": query_id}
