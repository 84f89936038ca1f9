"""The name of the process that answers, beside its answers, where many of them serve one API."""

import re
from collections.abc import MutableMapping
from typing import Any

from ragmon.asgi import App, Receive, Scope, Send

HEADER = "Ragmon-Instance"
_UNAUTHORIZED = 401
_UNSAFE = re.compile(r"[^!-~]")


def named(app: App, name: str) -> App:
    """Add the header to the answers of ``GET /v1/…``.

    Not where a token is missing: who may not ask is not told the name of the host.

    Args:
        app: that answers.
        name: of this process; what HTTP does not carry becomes ``_``.
    """
    added = (HEADER.lower().encode(), _UNSAFE.sub("_", name).encode())

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def with_name(message: MutableMapping[str, Any]) -> None:
            starts = message["type"] == "http.response.start"
            if starts and message["status"] != _UNAUTHORIZED:
                message["headers"] = [*message.get("headers", ()), added]
            await send(message)

        is_named = scope.get("method") in ("GET", "HEAD") and scope["path"].startswith("/v1/")
        await app(scope, receive, with_name if is_named else send)

    return answer
