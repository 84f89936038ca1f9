"""Preference between two answers, in the order in which they are shown."""

from typing import Literal

from msgspec import Struct

from ragmon.clock import Clock
from ragmon.judges.llm.cache import Cache, LruCache
from ragmon.judges.llm.endpoint import LlmEndpoint
from ragmon.judges.llm.errors import JudgeError
from ragmon.judges.llm.options import Options
from ragmon.judges.llm.question import Conversation, Prompt
from ragmon.judges.llm.verdict import Failure, TokenUsage

Choice = Literal["first", "second", "tie"]

_CHARACTERS_A_TOKEN = 3  # cautiously: most text has four
_PROMPT_CHARACTERS = 2_500  # of the instructions
_TRIES = 2


class AnswerPair(Struct, frozen=True):
    """Two answers to one question, in the order in which they are shown."""

    query: str
    first: str
    second: str
    reference: str | None = None  # the true answer, where it is known


class Preferred(Struct, frozen=True):
    """The model's reply: its choice, after its reason."""

    justification: str
    better: Choice


def material_of(pair: AnswerPair) -> tuple[tuple[str, str], ...]:
    """(label, text) of everything that is shown."""
    shown = [("question", pair.query)]
    if pair.reference:
        shown.append(("reference", pair.reference))
    return (*shown, ("first answer", pair.first), ("second answer", pair.second))


def judge_pair(conversation: Conversation, pair: AnswerPair, most_characters: int) -> Choice:
    """Ask the model for the better answer.

    Raises:
        JudgeError: the model gave no usable answer, or the texts are too long.
    """
    material = material_of(pair)
    if sum(len(text) for _, text in material) > most_characters:
        raise JudgeError("too_long", f"more than {most_characters} characters")
    return conversation.ask(Prompt("prefer", material, Preferred, lambda _: "")).better


class Preference(Struct, frozen=True):
    """A choice, with the tokens and dollars it took."""

    choice: Choice
    tokens: TokenUsage
    cost_usd: float | None  # None: the model has no price
    model: str


class PairJudge:
    """Compares answers; thread-safe. Close it at the end."""

    def __init__(self, options: Options, endpoint: LlmEndpoint, cache: Cache) -> None:
        self._options = options
        self._endpoint = endpoint
        self._cache = cache

    def prefer(self, pair: AnswerPair) -> Preference | Failure:
        """Compare two answers in the order in which they are shown."""
        conversation = Conversation(self._endpoint, self._cache)
        try:
            choice = judge_pair(conversation, pair, self._options.max_characters)
        except JudgeError as error:
            cost_usd = self.cost_usd(conversation.model, conversation.tokens)
            return error.failure(conversation.model, conversation.tokens, cost_usd)
        cost_usd = self.cost_usd(conversation.model, conversation.tokens)
        return Preference(choice, conversation.tokens, cost_usd, conversation.model)

    def cost_usd(self, model: str, tokens: TokenUsage) -> float | None:
        """Cost in US dollars by the price table; None when the model is not in it."""
        return self._options.cost_usd(model, tokens.prompt, tokens.completion)

    def forecast(self, pair: AnswerPair) -> TokenUsage:
        """The most tokens that one order can take, apart from repeated requests."""
        texts = sum(len(text) for _, text in material_of(pair))
        sent = (texts + _PROMPT_CHARACTERS) // _CHARACTERS_A_TOKEN
        return TokenUsage(sent * _TRIES, self._options.max_tokens * _TRIES)

    def opens_in(self) -> float:
        """Seconds until the endpoint is asked again after failing; 0 when it may be asked now."""
        return self._endpoint.opens_in()

    def close(self) -> None:
        """Close the connections."""
        self._endpoint.close()


def build(options: Options, clock: Clock, cache: Cache | None = None) -> PairJudge:
    """A judge of pairs; nothing is sent until it is asked.

    Raises:
        SettingsError: the key file cannot be read.
    """
    replies = LruCache(options.cache_entries) if cache is None else cache
    return PairJudge(options, LlmEndpoint(options, clock), replies)
