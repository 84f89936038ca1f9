"""Decorator that logs each call of a function as a query.

@logged(monitor)
def ask(question: str, model: str = "small") -> dict: …
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ragmon.client.arguments import QueryFields
from ragmon.client.context import as_current
from ragmon.client.monitor import Monitor
from ragmon.client.timing import TimedQuery

if TYPE_CHECKING:
    from typing_extensions import Unpack

Function = TypeVar("Function", bound=Callable[..., Any])

_QUESTION = ("question", "query", "prompt", "message", "user_input", "input", "text", "q")
_ANSWER = ("answer", "response", "output", "result", "reply", "text", "content")
_DOCUMENTS = (
    *("documents", "docs", "source_documents", "retrieved_docs", "retrieved_documents"),
    *("source_nodes", "chunks", "contexts", "context", "sources"),
)


def logged(
    monitor: Monitor, *, question: str | None = None, **fields: Unpack[QueryFields]
) -> Callable[[Function], Function]:
    """Log each call of a function, coroutine function or (asynchronous) generator function.

    The answer is the text that is returned, or that the pieces of a generator make; of a
    dictionary or an object it is read by its name (``answer``, ``response``, ``output`` …), as are
    the documents (``documents``, ``source_documents``, ``source_nodes``, ``contexts`` …); of a pair
    it is the first, beside the documents. What ``current_query()`` records inside comes first.

    Args:
        monitor: logs the queries.
        question: the parameter that holds the question; by default the one that is called so, or
            the only one.
        **fields: of every query, such as ``pipeline``; see ``QueryFields``.

    Raises:
        ValueError: when the function is decorated: no parameter can be taken for the question.
    """

    def decorate(function: Function) -> Function:
        calls = _Calls(monitor, function, question, fields)
        wrapper: Any = functools.wraps(function)(_function(calls, function))
        return wrapper  # type: ignore[no-any-return]

    return decorate


class _Calls:
    """The forms that a decorated function may have."""

    def __init__(
        self,
        monitor: Monitor,
        function: Callable[..., Any],
        question: str | None,
        fields: Mapping[str, Any],
    ) -> None:
        self._monitor = monitor
        self._function = function
        self._signature = inspect.signature(function)
        self._question = _question(self._signature, question, function.__qualname__)
        self._fields = fields

    def call(self, *args: Any, **kwargs: Any) -> Any:
        with self._query(args, kwargs) as query, as_current(query):
            result = self._function(*args, **kwargs)
            _record(query, result)
            return result

    async def coroutine(self, *args: Any, **kwargs: Any) -> Any:
        with self._query(args, kwargs) as query, as_current(query):
            result = await self._function(*args, **kwargs)
            _record(query, result)
            return result

    def pieces(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Pieces as they come; a reader who stops early ends the query without an error."""
        query, texts = self._query(args, kwargs), list[str]()
        iterator = self._function(*args, **kwargs)
        query.begin()
        try:
            while True:
                with as_current(query):  # Between two pieces the context is the reader's.
                    piece = next(iterator, query)
                if piece is query:
                    return
                texts.append(_text(piece))
                yield piece
        except Exception as error:
            query.failed(error)
            raise
        finally:
            iterator.close()
            _record(query, "".join(texts) or None)
            query.finish()

    async def asynchronous_pieces(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        query, texts = self._query(args, kwargs), list[str]()
        iterator = self._function(*args, **kwargs)
        query.begin()
        try:
            while True:
                try:
                    with as_current(query):
                        piece = await iterator.__anext__()
                except StopAsyncIteration:
                    return
                texts.append(_text(piece))
                yield piece
        except Exception as error:
            query.failed(error)
            raise
        finally:
            await iterator.aclose()
            _record(query, "".join(texts) or None)
            query.finish()

    def _query(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> TimedQuery:
        try:
            asked = self._signature.bind(*args, **kwargs).arguments.get(self._question)
        except TypeError:
            asked = None  # The call itself raises the same, in the application's own words.
        return self._monitor.query(_text(asked) or None, **self._fields)


def _function(calls: _Calls, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the same kind (a function, so that it becomes a method in a class)."""

    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        return await calls.coroutine(*args, **kwargs)

    async def asynchronous_pieces(*args: Any, **kwargs: Any) -> Any:
        async for piece in calls.asynchronous_pieces(*args, **kwargs):
            yield piece

    def pieces(*args: Any, **kwargs: Any) -> Any:
        yield from calls.pieces(*args, **kwargs)

    def call(*args: Any, **kwargs: Any) -> Any:
        return calls.call(*args, **kwargs)

    if inspect.iscoroutinefunction(function):
        return coroutine
    if inspect.isasyncgenfunction(function):
        return asynchronous_pieces
    return pieces if inspect.isgeneratorfunction(function) else call


def _question(signature: inspect.Signature, name: str | None, function: str) -> str:
    """The parameter that holds the question."""
    names = [each for each in signature.parameters if each not in ("self", "cls")]
    if name in names:
        return str(name)
    chosen = next((each for each in _QUESTION if each in names), None)
    if name is None and chosen is not None:
        return chosen
    if name is None and len(names) == 1:
        return names[0]
    raise ValueError(
        f"no parameter of {function}({', '.join(names)}) can be taken for the question; "
        "name one: logged(monitor, question=…)"
    )


def _record(query: TimedQuery, result: Any) -> None:
    """Record what a function returned, unless it has recorded that itself."""
    documents = None
    if isinstance(result, tuple) and len(result) == 2:
        result, documents = result
    if not isinstance(result, str) and result is not None:
        documents = documents if documents is not None else _named(result, _DOCUMENTS)
        result = _named(result, _ANSWER)
    query.complete(answer=_text(result) or None, retrieved_docs=documents)


def _named(result: Any, names: tuple[str, ...]) -> Any:
    """A value by the first of these keys or attributes that there is."""
    look = result.get if isinstance(result, Mapping) else lambda name: getattr(result, name, None)
    return next((value for value in map(look, names) if value is not None), None)


def _text(value: Any) -> str:
    """Text, also of a message object; empty when it is none."""
    value = value if isinstance(value, str) else getattr(value, "content", None)
    return value if isinstance(value, str) else ""
