"""Style sheet, script and icon of the pages, at addresses that hold their content's hash."""

import hashlib
from collections.abc import Sequence
from importlib.resources import files
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ragmon.asgi import Problem
from ragmon.charts.style import CHART_STYLE
from ragmon.web.api import Page
from ragmon.web.page_endpoints import ASSET, FAVICON

_MEDIA = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_HEADERS = {
    "cache-control": "public, max-age=31536000, immutable",
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; sandbox",
}


class Asset(NamedTuple):
    """A file that a page loads."""

    body: bytes
    media: str
    address: str


class Assets:
    """Every file of ``static``; a changed file has a new address."""

    def __init__(self) -> None:
        folder = files("ragmon.web.pages") / "static"
        self._assets = {
            entry.name: _asset(entry.name, entry.read_bytes())
            for entry in folder.iterdir()
            if entry.is_file() and not entry.name.startswith(".")
        }

    @property
    def icon(self) -> Asset:
        """The icon of the pages."""
        return self._assets["icon.svg"]

    def address(self, name: str) -> str:
        """Path of a file, for a template."""
        return self._assets[name].address

    def find(self, digest: str, name: str) -> Asset | None:
        """The file of that content; None when it has another by now."""
        asset = self._assets.get(name)
        return asset if asset and asset.address == _address(digest, name) else None


class AssetSection:
    """Endpoint of what the pages load."""

    def __init__(self, assets: Assets) -> None:
        self._assets = assets

    def pages(self) -> Sequence[Page]:
        """Its endpoints."""
        return (Page(ASSET, self.asset), Page(FAVICON, self.favicon))

    async def asset(self, request: Request) -> Response:
        """One file, which never changes at its address."""
        digest, name = request.path_params["digest"], request.path_params["name"]
        asset = self._assets.find(digest, name)
        if asset is None:
            raise Problem(404, "no such file; reload the page", reason="not_found")
        return Response(asset.body, headers=_HEADERS, media_type=asset.media)

    async def favicon(self, _: Request) -> Response:
        """The icon; its name never changes, so it is asked for again after a day."""
        icon = self._assets.icon
        headers = _HEADERS | {"cache-control": "public, max-age=86400"}
        return Response(icon.body, headers=headers, media_type=icon.media)


def _asset(name: str, body: bytes) -> Asset:
    if name.endswith(".css"):
        body = CHART_STYLE.encode() + body
    digest = hashlib.blake2b(body, digest_size=12).hexdigest()
    return Asset(body, _MEDIA[name[name.rindex(".") :]], _address(digest, name))


def _address(digest: str, name: str) -> str:
    return f"/static/{digest}/{name}"
