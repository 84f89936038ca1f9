"""Pages of stored queries with all their texts, from a store or from a running daemon."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import NamedTuple, Protocol
from urllib.parse import quote

from msgspec.structs import replace

from ragmon import queries
from ragmon.api_schema import QueryDetail, QueryList
from ragmon.asgi import Problem
from ragmon.cli import remote
from ragmon.cli.connection import Connection
from ragmon.daemon.query_reads import filter_of
from ragmon.errors import RemoteError, SettingsError
from ragmon.pipeline import Pipeline
from ragmon.queries.criteria import order_of
from ragmon.queries.cursor import write_cursor
from ragmon.stores import Reader
from ragmon.web.parameters import QuerySelection, selection_from

PAGE = queries.MOST_WITH_TEXTS
"""Queries of one page."""


class QueryPage(NamedTuple):
    """Some queries, and how to go on after them."""

    queries: list[QueryDetail]
    cursor: str  # of the next page; empty: this is the last
    matches: int | None = None  # on all pages, where that is known


class QueryPageReader(Protocol):
    """Source of pages, from the newest query on."""

    def page(self, cursor: str, limit: int) -> QueryPage:
        """The queries after a page; an empty cursor begins."""
        ...


def selection_by(parameters: Mapping[str, str], now: float) -> QuerySelection:
    """The selection that parameters of the API describe.

    Raises:
        SettingsError: one cannot be read.
    """
    try:
        return selection_from(parameters, (parameters.get("pipeline", ""), None), now)
    except Problem as error:
        raise SettingsError(str(error)) from None


class StorePages:
    """Pages of a store at rest, or beside its daemon."""

    def __init__(
        self, reader: Reader, pipeline: Pipeline, selection: QuerySelection, newest: float
    ) -> None:
        """Check the selection.

        Args:
            reader: of the store.
            pipeline: that describes queries.
            selection: of queries.
            newest: end of a selection that names none, unix seconds.

        Raises:
            SettingsError: the selection names something unknown.
        """
        self._reader = reader
        self._pipeline = pipeline
        self._selection = selection
        self._newest = newest
        self._has_counted = False
        self.page("", 0)

    def page(self, cursor: str, limit: int) -> QueryPage:
        """The queries after a page; none with a limit of 0, which checks the selection alone."""
        selection = replace(self._selection, cursor=cursor, limit=min(limit, PAGE))
        try:
            asked = filter_of(selection, self._pipeline, self._newest)
        except ValueError as error:
            raise SettingsError(str(error)) from None
        if not limit:
            return QueryPage([], cursor)
        listed = queries.page(
            queries.QuerySearch(self._reader, self._pipeline, asked), whole_texts=True
        )
        after = listed.after and write_cursor(order_of(asked), listed.after)
        return QueryPage(listed.queries, after or "")


class DaemonPages:
    """Pages that a daemon answers."""

    def __init__(self, url: str, session: Connection, parameters: Mapping[str, str]) -> None:
        self._url = url
        self._session = session
        self._parameters = dict(parameters)

    def page(self, cursor: str, limit: int) -> QueryPage:
        """The queries after a page; texts that it leaves out are asked for one by one."""
        asked = self._parameters | {"limit": str(min(limit, PAGE))}
        asked |= {"cursor": cursor} if cursor else {}
        listed = remote.get(self._session, self._url, "/v1/queries", QueryList, **asked)
        whole = [self._whole(query) if query.texts_omitted else query for query in listed.queries]
        matches = None if listed.matches_at_least else listed.matches
        return QueryPage([query for query in whole if query], listed.next_cursor or "", matches)

    def _whole(self, query: QueryDetail) -> QueryDetail | None:
        """The query with its texts; None where it has expired meanwhile."""
        path = f"/v1/queries/{quote(query.record.query_id, safe='')}"
        try:
            return remote.get(self._session, self._url, path, QueryDetail)
        except RemoteError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise
