"""Tokens over HTTP: rights, expiry and last use, never a secret."""

from collections.abc import Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response

from ragmon.token_schema import TokenList
from ragmon.web import endpoints
from ragmon.web.api import Page, json_answer


class TokenSection:
    """Endpoint of tokens."""

    def __init__(self, tokens: Callable[[], TokenList]) -> None:
        self._tokens = tokens

    def pages(self) -> Sequence[Page]:
        """Its endpoints."""
        return (Page(endpoints.TOKENS, self.listed),)

    async def listed(self, _: Request) -> Response:
        """Every token."""
        return json_answer(self._tokens())
