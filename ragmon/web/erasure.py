"""Erasure of a user's or session's content over HTTP, and the receipts of it."""

from collections.abc import Sequence
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response

from ragmon.asgi import Problem
from ragmon.erasure_schema import ErasureList, ErasureReceipt
from ragmon.privacy.erasure import Kind, Subject
from ragmon.records import MAX_ID
from ragmon.web import endpoints
from ragmon.web.api import Page, json_answer

_FLAGS = {"": False, "false": False, "0": False, "true": True, "1": True}


class ErasureSource(Protocol):
    """Carries out requests to erase content."""

    async def request(self, subject: Subject, *, dry_run: bool) -> ErasureReceipt:
        """Keep a request and begin; the receipt as it is now."""
        ...

    async def receipts(self) -> list[ErasureReceipt]:
        """Every receipt, the newest first."""
        ...

    async def receipt(self, request: str) -> ErasureReceipt:
        """One receipt; KeyError when there is none."""
        ...


class ErasureSection:
    """Endpoints of erasure."""

    def __init__(self, erasures: ErasureSource) -> None:
        self._erasures = erasures

    def pages(self) -> Sequence[Page]:
        """Its endpoints."""
        return (
            Page(endpoints.FORGET_USER, self.forget_user),
            Page(endpoints.FORGET_SESSION, self.forget_session),
            Page(endpoints.FORGOTTEN, self.listed),
            Page(endpoints.RECEIPT, self.shown),
        )

    async def forget_user(self, request: Request) -> Response:
        """Erase the content of one user."""
        return await self._forget("user", request)

    async def forget_session(self, request: Request) -> Response:
        """Erase the content of one session."""
        return await self._forget("session", request)

    async def listed(self, _: Request) -> Response:
        """Every receipt."""
        return json_answer(ErasureList(receipts=await self._erasures.receipts()))

    async def shown(self, request: Request) -> Response:
        """One receipt."""
        name = request.path_params["request"]
        try:
            return json_answer(await self._erasures.receipt(name))
        except KeyError:
            detail = f"there is no request {name[:100]!r}"
            raise Problem(404, detail, reason="not_found") from None

    async def _forget(self, kind: Kind, request: Request) -> Response:
        name, asked = request.path_params["name"], request.query_params
        flag = asked.get("dry_run", "")
        if flag not in _FLAGS:
            detail = f"dry_run: {flag[:40]!r} is neither true nor false"
            raise Problem(400, detail, reason="bad_parameter")
        if not 0 < len(name) <= MAX_ID:
            detail = f"the id of a {kind} has 1 to {MAX_ID} characters"
            raise Problem(400, detail, reason="bad_parameter")
        subject = Subject(kind=kind, id=name, pipeline=asked.get("pipeline", ""))
        receipt = await self._erasures.request(subject, dry_run=_FLAGS[flag])
        return json_answer(receipt, 202)
