"""Baselines over HTTP: list, show, set, promote, delete."""

from collections.abc import Sequence
from typing import Protocol

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ragmon.api_schema import BaselineDetail, BaselineList, BaselineRequest, DeletedBaselines
from ragmon.asgi import BodyLimits, Problem
from ragmon.stores.protocols import BaselineRow
from ragmon.web import endpoints
from ragmon.web.api import Page, body_of, json_answer


class BaselineSource(Protocol):
    """Source of baselines.

    Every method raises ValueError for a request that makes no sense and KeyError for a baseline
    that does not exist.
    """

    async def baselines(self) -> BaselineList:
        """Every version of every baseline, and the one that traffic is compared with."""
        ...

    async def baseline(self, name: str, version: int | None) -> BaselineDetail:
        """One version with its content; None: the promoted one, else the newest."""
        ...

    async def keep_baseline(self, name: str, request: BaselineRequest) -> BaselineRow:
        """Save another version."""
        ...

    async def promote_baseline(self, name: str, version: int | None) -> BaselineRow:
        """Compare with this one from now on."""
        ...

    async def delete_baseline(self, name: str, version: int | None) -> int:
        """Forget one version, or all."""
        ...


class BaselineSection:
    """Endpoints of baselines."""

    def __init__(self, source: BaselineSource, limits: BodyLimits) -> None:
        self._source = source
        self._limits = limits

    def pages(self) -> Sequence[Page]:
        """Its endpoints."""
        return (
            Page(endpoints.BASELINES, self.listed),
            Page(endpoints.BASELINE, self.shown),
            Page(endpoints.SAVE_BASELINE, self.save),
            Page(endpoints.PROMOTE_BASELINE, self.promoted),
            Page(endpoints.DELETE_BASELINE, self.deleted),
        )

    async def listed(self, _: Request) -> Response:
        """Every version of every baseline."""
        return json_answer(await self._source.baselines())

    async def shown(self, request: Request) -> Response:
        """One version."""
        name, version = _asked(request)
        try:
            return json_answer(await self._source.baseline(name, version))
        except KeyError:
            raise _missing(name, version) from None

    async def save(self, request: Request) -> Response:
        """Save another version."""
        name, _ = _asked(request)
        try:
            body = await body_of(request, self._limits)
            asked = msgspec.json.decode(body, type=BaselineRequest)
            if bool(asked.window) is bool(bytes(asked.run)):
                raise ValueError("give exactly one of from and run")
            return json_answer(await self._source.keep_baseline(name, asked), 201)
        except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
            raise Problem(400, str(error), reason="bad_parameter") from None

    async def promoted(self, request: Request) -> Response:
        """Compare with this version from now on."""
        name, version = _asked(request)
        try:
            return json_answer(await self._source.promote_baseline(name, version))
        except KeyError:
            raise _missing(name, version) from None

    async def deleted(self, request: Request) -> Response:
        """Delete one version, or all."""
        name, version = _asked(request)
        try:
            count = await self._source.delete_baseline(name, version)
            return json_answer(DeletedBaselines(deleted=count))
        except KeyError:
            raise _missing(name, version) from None


def _asked(request: Request) -> tuple[str, int | None]:
    name, version = request.path_params["name"], request.query_params.get("version", "")
    if not version:
        return name, None
    if not version.isdecimal() or len(version) > 9:
        raise Problem(400, f"version: {version[:40]!r} is no number", reason="bad_parameter")
    return name, int(version)


def _missing(name: str, version: int | None) -> Problem:
    of = "" if version is None else f" version {version} of"
    return Problem(404, f"there is no{of} baseline {name[:100]!r}", reason="not_found")
