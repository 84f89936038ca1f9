"""One question to the model: material fenced, reply checked, and asked once more if unusable."""

import secrets
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from ragmon.judges.llm import prompts
from ragmon.judges.llm.cache import Cache, content_key
from ragmon.judges.llm.endpoint import LlmEndpoint
from ragmon.judges.llm.errors import JudgeError
from ragmon.judges.llm.reply import parse
from ragmon.judges.llm.verdict import TokenUsage

Answer = TypeVar("Answer", bound=Struct)
_TOKEN_BYTES = 6
_TRIES = 2  # an unusable reply is asked for once more


class Prompt(Struct, Generic[Answer], frozen=True):
    """One task for the model with its material."""

    prompt: str  # name of the prompt file that states the task
    material: tuple[tuple[str, str], ...]  # (label, text)
    kind: type[Answer]
    check: Callable[[Answer], str]  # the error in an answer; empty: it is usable
    most: int = 0  # fills {most} in the prompt
    task: str = ""  # the task itself, in place of a prompt file


class Conversation:
    """Questions about one answer, with the tokens they took."""

    def __init__(self, endpoint: LlmEndpoint, cache: Cache) -> None:
        self._endpoint = endpoint
        self._cache = cache
        self.tokens = TokenUsage()
        self.model = ""

    def ask(self, question: Prompt[Answer]) -> Answer:
        """The model's answer; the cached one when the same was asked before.

        Raises:
            JudgeError: the endpoint failed, or no reply was usable.
        """
        self.model = self._endpoint.model()
        key = self._key(question)
        cached = self._cache.get(key)
        if cached is not None:
            return msgspec.json.decode(cached, type=question.kind)
        answer = self._ask_model(question)
        self._cache.put(key, msgspec.json.encode(answer))
        return answer

    def _ask_model(self, question: Prompt[Answer]) -> Answer:
        for attempt in range(_TRIES):
            fence, token = unguessable(question.material), unguessable(question.material)
            system, user = wording(question, fence, token)
            reply = self._endpoint.chat(system, user, schema_of(question.kind))
            self.tokens += reply.tokens
            try:
                answer = parse(reply.text, token, question.kind)
                if complaint := question.check(answer):
                    raise JudgeError("malformed", complaint)
            except JudgeError:
                if attempt + 1 == _TRIES:
                    raise
            else:
                return answer
        raise AssertionError  # the last try returns or raises

    def _key(self, question: Prompt[Answer]) -> bytes:
        parts = [self.model, prompts.VERSION, question.prompt, str(question.most), question.task]
        return content_key(parts + [text for pair in question.material for text in pair])


def wording(question: Prompt[Any], fence: str, token: str) -> tuple[str, str]:
    """(system message, user message): the rules and the task, the material and what to reply."""
    rules = prompts.text("rules").replace("{fence}", fence)
    shipped = "" if question.task else prompts.text(question.prompt)
    task = question.task or shipped.replace("{most}", str(question.most))
    reply = prompts.text("reply").replace("{check}", token)
    blocks = [
        f"=== BEGIN {label} {fence} ===\n{text}\n=== END {label} {fence} ==="
        for label, text in question.material
    ]
    return f"{rules}\n\n{task}\n\n{reply}", "\n\n".join([*blocks, reply])


def unguessable(material: tuple[tuple[str, str], ...]) -> str:
    """A random word that the material does not hold."""
    while True:
        word = secrets.token_hex(_TOKEN_BYTES)
        if not any(word in text for _, text in material):
            return word


def schema_of(kind: type[Struct]) -> dict[str, Any]:
    """A JSON schema as OpenAI's strict mode wants it: all fields required, no others, no $ref root.

    ``check`` comes first, as the field that shows whose object this is.
    """
    (reference,), parts = msgspec.json.schema_components((kind,), ref_template="#/$defs/{name}")
    root = _strict(parts.pop(reference["$ref"].rpartition("/")[2]))
    root["properties"] = {"check": {"type": "string"}, **root["properties"]}
    root["required"] = list(root["properties"])
    if parts:
        root["$defs"] = {name: _strict(part) for name, part in parts.items()}
    return root


def _strict(part: dict[str, Any]) -> dict[str, Any]:
    kept = {name: part[name] for name in ("type", "properties") if name in part}
    return kept | {"required": list(part["properties"]), "additionalProperties": False}
