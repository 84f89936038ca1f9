"""Model and token usage, as frameworks write them beside or into replies."""

from typing import Any

from ragmon.sources.otlp.reading.values import integer, loads, name

_MAX_DEPTH = 8
_PAIRS = (("model", "usage"), ("model_name", "token_usage"))  # the second in LangChain
_USAGES = ("usage", "token_usage", "usage_metadata")
_PROMPT = ("prompt_tokens", "input_tokens", "inputTokens", "promptTokens")
_COMPLETION = ("completion_tokens", "output_tokens", "outputTokens", "completionTokens")


def model_in(value: Any) -> str | None:
    """The model that an output names."""
    meta = _meta(value)
    return name(meta.get("model")) or name(meta.get("model_name"))


def reply_id(value: Any) -> str | None:
    """The id of a model's reply, as the provider gave it."""
    reply = loads(value)
    return name(reply.get("id")) if isinstance(reply, dict) else None


def prompt_tokens_in(value: Any) -> int | None:
    """Tokens of the prompt that an output counts."""
    return _count(value, _PROMPT)


def completion_tokens_in(value: Any) -> int | None:
    """Tokens of the answer that an output counts."""
    return _count(value, _COMPLETION)


def counted(value: Any, side: str) -> int | None:
    """Tokens of ``prompt`` or ``completion`` in a usage, or in a reply that has one."""
    structure = loads(value)
    if not isinstance(structure, dict):
        return None
    inner: dict[str, Any] = next(
        (structure[key] for key in _USAGES if isinstance(structure.get(key), dict)), {}
    )
    keys = _PROMPT if side == "prompt" else _COMPLETION
    return next(
        (count for one in (structure, inner) for key in keys
         if (count := integer(one.get(key))) is not None),
        None,
    )  # fmt: skip


def _count(value: Any, keys: tuple[str, ...]) -> int | None:
    meta = _meta(value)
    usage = meta.get("usage") or meta.get("token_usage")
    if not isinstance(usage, dict):
        return None
    return next((count for key in keys if (count := integer(usage.get(key))) is not None), None)


def _meta(value: Any, depth: int = _MAX_DEPTH) -> dict[str, Any]:
    """The first object that has both a model and its usage."""
    value = loads(value)
    if not depth or not isinstance(value, dict | list):
        return {}
    if isinstance(value, dict) and any(
        model in value and usage in value for model, usage in _PAIRS
    ):
        return value
    inner = value.values() if isinstance(value, dict) else value[:64]
    candidates = (_meta(each, depth - 1) for each in inner if isinstance(each, dict | list))
    return next((each for each in candidates if each), {})
