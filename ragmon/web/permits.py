"""Rights of whoever sent a request to a Starlette endpoint."""

from collections.abc import Callable
from typing import Protocol

from starlette.requests import Request

from ragmon.access import ANONYMOUS, Permit
from ragmon.asgi import Scope
from ragmon.web.visitors import Visitor

Readable = Callable[[str], bool]
"""True for the name of a pipeline that may be read; None in its place: all."""


class AccessCheck(Protocol):
    """Check of rights."""

    def __call__(self, scope: Scope, needed: str) -> Permit:
        """Check a request for a scope, and return its rights.

        Raises:
            Problem: it lacks them.
        """
        ...

    def form_secret(self, scope: Scope, *, is_login: bool = False) -> str:
        """The secret by which forms of a request's sender are known; empty: none are taken."""
        ...

    def visitor(self, scope: Scope, permit: Permit) -> Visitor:
        """Whoever looks at a page."""
        ...


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
