"""Rights of whoever sent a request to a Starlette endpoint."""

from collections.abc import Callable

from starlette.requests import Request

from ragmon.access import ANONYMOUS, Permit

Readable = Callable[[str], bool]
"""True for the name of a pipeline that may be read; None in its place: all."""


def permit_of(request: Request) -> Permit:
    """Rights of whoever sent a request."""
    permit = getattr(request.state, "permit", ANONYMOUS)
    assert isinstance(permit, Permit)
    return permit


def pipeline_of(request: Request) -> tuple[str, Readable | None]:
    """The pipeline that a request asks for, empty for all, and those that it may read.

    Raises:
        Problem: 403, it may not read the one that it asks for.
    """
    return check_pipeline(request, request.query_params.get("pipeline", ""))


def check_pipeline(request: Request, pipeline: str) -> tuple[str, Readable | None]:
    """A pipeline, empty for all, and those that a request may read.

    Raises:
        Problem: 403, it may not read this one.
    """
    permit = permit_of(request)
    if pipeline and permit.pipelines is not None and not permit.pipelines(pipeline):
        raise permit.refusal(f"pipeline {pipeline[:100]!r} is none of them")
    return pipeline, permit.pipelines
