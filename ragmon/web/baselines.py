"""Baselines over HTTP: list, show, set, promote, delete."""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from ragmon.asgi import BodyLimits, Problem
from ragmon.web.api import Page, body_of, json_answer

_PATH = "/v1/baselines/{name}"


class BaselineRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a baseline is to be made of: exactly one of ``from`` and ``run``."""

    window: str = msgspec.field(default="", name="from")  # how far back, for example 7d
    run: msgspec.Raw = msgspec.Raw()  # what `ragmon evaluate --json` wrote
    by: str = ""  # who asks
    promote: bool = False


class BaselineSource(Protocol):
    """Who keeps them; ValueError for what makes no sense, KeyError for what is not there."""

    async def baselines(self) -> dict[str, Any]:
        """Every version of every baseline, and what is compared with now."""
        ...

    async def baseline(self, name: str, version: int | None) -> dict[str, Any]:
        """One version with what it says; None: the promoted one, else the newest."""
        ...

    async def keep_baseline(self, name: str, wanted: BaselineRequest) -> dict[str, Any]:
        """Save another version."""
        ...

    async def promote_baseline(self, name: str, version: int | None) -> dict[str, Any]:
        """Compare with this one from now on."""
        ...

    async def delete_baseline(self, name: str, version: int | None) -> int:
        """Forget one version, or all."""
        ...


class BaselineSection:
    """The pages."""

    def __init__(self, keeper: BaselineSource, limits: BodyLimits) -> None:
        self._keeper = keeper
        self._limits = limits

    def pages(self) -> Sequence[Page]:
        """What is answered; changes need a token for administrators."""
        return (
            Page("/v1/baselines", "GET", "read", self.listed),
            Page(_PATH, "GET", "read", self.shown),
            Page(_PATH, "PUT", "admin", self.kept),
            Page(f"{_PATH}/promote", "POST", "admin", self.promoted),
            Page(_PATH, "DELETE", "admin", self.deleted),
        )

    async def listed(self, _: Request) -> Response:
        """All of them."""
        return json_answer(await self._keeper.baselines())

    async def shown(self, request: Request) -> Response:
        """One of them."""
        name, version = _asked(request)
        try:
            return json_answer(await self._keeper.baseline(name, version))
        except KeyError:
            raise _missing(name, version) from None

    async def kept(self, request: Request) -> Response:
        """Another version."""
        name, _ = _asked(request)
        try:
            wanted = msgspec.json.decode(await body_of(request, self._limits), type=BaselineRequest)
            if bool(wanted.window) is bool(bytes(wanted.run)):
                raise ValueError("give exactly one of from and run")
            return json_answer(await self._keeper.keep_baseline(name, wanted), 201)
        except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
            raise Problem(400, str(error), reason="bad_parameter") from None

    async def promoted(self, request: Request) -> Response:
        """Compare with this one."""
        name, version = _asked(request)
        try:
            return json_answer(await self._keeper.promote_baseline(name, version))
        except KeyError:
            raise _missing(name, version) from None

    async def deleted(self, request: Request) -> Response:
        """Forget it."""
        name, version = _asked(request)
        try:
            return json_answer({"deleted": await self._keeper.delete_baseline(name, version)})
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
