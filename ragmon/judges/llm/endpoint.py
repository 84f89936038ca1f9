"""LLM endpoint: retries, circuit breaker, request dialect, and a limit on concurrent requests."""

import queue
import threading
from typing import Any, NamedTuple

import msgspec
import requests

from ragmon.clock import Clock
from ragmon.http_client import retry_after_s
from ragmon.judges.llm import dialect, wire
from ragmon.judges.llm.breaker import Breaker
from ragmon.judges.llm.dialect import Chat, Dialect, Schema
from ragmon.judges.llm.errors import JudgeError
from ragmon.judges.llm.options import Options
from ragmon.judges.llm.verdict import Reason, TokenUsage

_FIRST_BACKOFF_S = 0.5
_DETAIL = 200  # characters of a server's message that are passed on
_CHARACTERS_A_TOKEN = 4
_STATUS: dict[int, Reason] = {
    400: "bad_request",
    401: "auth",
    403: "auth",
    404: "not_found",
    408: "timeout",
    413: "too_long",
    422: "bad_request",
    429: "rate_limited",
}
_RETRYABLE: frozenset[Reason] = frozenset({"timeout", "network", "rate_limited", "server_error"})
_TOO_LONG = ("context_length", "context length", "maximum context", "too long", "too many tokens")
_FILTERED = ("content_filter", "content management policy")


class LlmReply(NamedTuple):
    """Text of the model's reply, with the tokens it took."""

    text: str
    tokens: TokenUsage
    model: str


class _Message(msgspec.Struct):
    content: str | list[Any] | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    usage: _Usage | None = None


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


class LlmEndpoint:
    """Sends chats; thread-safe, with at most ``concurrency`` requests at a time."""

    def __init__(self, options: Options, clock: Clock) -> None:
        """Raises SettingsError when the key cannot be read."""
        self._options = options
        self._clock = clock
        self._key = options.key()
        self._breaker = Breaker(options.breaker_failures, options.breaker_s)
        self._dialect = Dialect()
        self._model = options.model
        self._model_lock = threading.Lock()
        # A session serves one request at a time, so their number limits concurrent requests.
        self._sessions: queue.LifoQueue[requests.Session] = queue.LifoQueue()
        for _ in range(options.concurrency):
            self._sessions.put(wire.open_session(options, self._key))

    @property
    def dialect(self) -> Dialect:
        """The dialect of the last request that succeeded."""
        return self._dialect

    def opens_in(self) -> float:
        """Seconds until the endpoint is asked again; 0 when it may be asked now."""
        return self._breaker.opens_in(self._clock.monotonic())

    def close(self) -> None:
        """Close idle connections."""
        while True:
            try:
                self._sessions.get_nowait().close()
            except queue.Empty:
                return

    def model(self) -> str:
        """Name of the model; the first that the endpoint lists when none was set.

        Raises:
            JudgeError: the endpoint cannot be asked, or lists no model.
        """
        with self._model_lock:
            if self._model is None:
                answer = self._send_retrying("GET", "/models", None)
                if answer.status != 200:
                    raise self._refused(answer)
                self._model = _first_model(answer.body)
            return self._model

    def chat(self, system: str, user: str, schema: Schema) -> LlmReply:
        """Ask the model.

        Raises:
            JudgeError: there is no usable reply.
        """
        chat = Chat(self.model(), system, user, schema, self._options.max_tokens)
        spoken: Dialect | None = self._dialect
        while spoken is not None:
            request = dialect.body(spoken, chat)
            answer = self._send_retrying("POST", "/chat/completions", request)
            if answer.status == 200:
                self._dialect = spoken
                return self._reply(answer.body, chat.model, len(system) + len(user))
            refused = self._refused(answer)
            if not _may_be_dialect(refused):
                raise refused
            spoken = dialect.after_refusal(spoken, refused.detail)
        raise refused

    def _send_retrying(self, method: str, path: str, request: object) -> wire.HttpResult:
        """Send, and retry errors that may pass; honours Retry-After and the breaker."""
        previous: JudgeError | None = None
        for attempt in range(self._options.attempts):
            if not self._breaker.allows(self._clock.monotonic()):
                raise self._paused(previous)
            try:
                answer = self._send_once(method, path, request)
            except JudgeError as error:
                self._breaker.failed(
                    self._clock.monotonic(), _long_retry_after_s(error, self._options)
                )
                last = attempt + 1 == self._options.attempts
                if (
                    last
                    or error.reason not in _RETRYABLE
                    or _long_retry_after_s(error, self._options)
                ):
                    raise
                self._clock.sleep(error.retry_after_s or _FIRST_BACKOFF_S * 2.0**attempt)
                previous = error
                continue
            self._breaker.succeeded()
            return answer
        raise AssertionError  # attempts is at least 1

    def _send_once(self, method: str, path: str, request: object) -> wire.HttpResult:
        """One request; raises errors of the endpoint, returns refusals of the request itself."""
        session = self._sessions.get()
        try:
            url = self._options.base_url + path
            call = wire.HttpCall(method, url, request, self._options.timeout_s)
            answer = wire.send(session, call, self._clock)
        finally:
            self._sessions.put(session)
        if answer.status in (401, 403, 404, 408, 429) or not 200 <= answer.status < 500:
            error = self._refused(answer)
            if not (answer.status >= 500 and dialect.is_about_format(error.detail)):
                raise error
        return answer

    def _paused(self, previous: JudgeError | None) -> JudgeError:
        pause = f"endpoint paused for {self.opens_in():.0f} s"
        if previous is None:
            return JudgeError("circuit_open", pause)
        return JudgeError("circuit_open", f"{pause}: {previous.detail}", cause=previous.reason)

    def _refused(self, answer: wire.HttpResult) -> JudgeError:
        detail = self._without_key(_message(answer))
        reason = _STATUS.get(answer.status, "server_error")
        if 300 <= answer.status < 400:
            reason, detail = "not_found", "the endpoint redirects: check base_url"
        if reason == "bad_request":
            reason = _kind_of_bad_request(detail)
        wait = retry_after_s(answer.retry_after, self._clock.now())
        return JudgeError(reason, f"{answer.status}: {detail}", retry_after_s=wait)

    def _without_key(self, text: str) -> str:
        return (text.replace(self._key, "***") if self._key else text)[:_DETAIL]

    def _reply(self, body: bytes, model: str, sent: int) -> LlmReply:
        try:
            completion = msgspec.json.decode(body, type=_Completion)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise JudgeError("malformed", f"not a completion: {error}"[:_DETAIL]) from error
        if not completion.choices:
            raise JudgeError("malformed", "a completion without choices")
        choice = completion.choices[0]
        if choice.message.refusal or choice.finish_reason == "content_filter":
            raise JudgeError("refusal", "the model refused to answer")
        if choice.finish_reason == "length":
            raise JudgeError("truncated", f"the reply exceeds {self._options.max_tokens} tokens")
        text = _text(choice.message.content)
        return LlmReply(text, _tokens(completion.usage, sent, len(text)), model)


def _first_model(body: bytes) -> str:
    try:
        models = msgspec.json.decode(body, type=_Models).data
    except msgspec.DecodeError as error:
        raise JudgeError("not_found", "the endpoint lists no model: set judge.llm.model") from error
    if not models:
        raise JudgeError("not_found", "the endpoint lists no model: set judge.llm.model")
    return models[0].id


def _may_be_dialect(error: JudgeError) -> bool:
    """True if the same request could succeed in another dialect."""
    return error.reason in ("bad_request", "server_error")


def _text(content: str | list[Any] | None) -> str:
    """The reply's text; some gateways send it in parts."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    return content or ""


def _tokens(usage: _Usage | None, sent: int, received: int) -> TokenUsage:
    """As counted by the endpoint; guessed from characters when it does not say."""
    if usage is None:
        return TokenUsage(sent // _CHARACTERS_A_TOKEN, received // _CHARACTERS_A_TOKEN)
    return TokenUsage(max(usage.prompt_tokens, 0), max(usage.completion_tokens, 0))


def _message(answer: wire.HttpResult) -> str:
    """The server's error message, out of any of the usual JSON shapes."""
    try:
        content = msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return answer.body[:_DETAIL].decode("utf-8", "replace")
    error = content.get("error", content) if isinstance(content, dict) else content
    if isinstance(error, dict):
        return " ".join(
            str(error[name]) for name in ("message", "code", "param", "detail") if error.get(name)
        )
    return str(error)


def _kind_of_bad_request(detail: str) -> Reason:
    lowered = detail.lower()
    if any(sign in lowered for sign in _TOO_LONG):
        return "too_long"
    return "refusal" if any(sign in lowered for sign in _FILTERED) else "bad_request"


def _long_retry_after_s(error: JudgeError, options: Options) -> float:
    """Retry-After in seconds if it exceeds ``max_retry_after_s``, else 0."""
    wait = error.retry_after_s
    return wait if wait > options.max_retry_after_s else 0.0
