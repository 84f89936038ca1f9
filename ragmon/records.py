"""Records that pass between the stages, with the JSON field names of ``POST /v1/queries``.

Every struct is frozen, ignores unknown fields (applications log more over time) and bounds
every string, list and number, so that one bad client cannot exhaust memory or poison a sum.
``None`` means *not recorded*, which is not the same as empty or zero.
"""

import math
import operator
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import force_setattr

UNSTAMPED = -1.0
"""``QueryRecord.timestamp`` before the source has stamped it; no log can hold it."""

BEFORE_1970 = -2.0
"""Any RFC 3339 time before 1970, such as the zero time of Go and .NET; sources refuse it."""

LATEST = 253402300799.0
"""The last second of the year 9999, beyond which no time is read."""

MAX_ID = 256
MAX_TEXT = 1_000_000
MAX_CHUNKS = 1_000
MAX_TAGS = 64
MAX_STEPS = 200
MAX_CUSTOM_SCORES = 64
MAX_DIMENSIONS = 8_192
MAX_FEEDBACK_TEXT = 10_000

Id = Annotated[str, Meta(min_length=1, max_length=MAX_ID)]
Name = Annotated[str, Meta(max_length=MAX_ID)]
Text = Annotated[str, Meta(max_length=MAX_TEXT)]
Milliseconds = Annotated[float, Meta(ge=0.0, le=1e9)]
Score = Annotated[float, Meta(ge=-1e12, le=1e12)]
Ids = Annotated[list[Id], Meta(max_length=MAX_CHUNKS)]
Grades = Annotated[
    dict[Id, Annotated[float, Meta(ge=-100.0, le=100.0)]], Meta(max_length=MAX_CHUNKS)
]
Tags = Annotated[dict[Name, Annotated[str, Meta(max_length=MAX_ID)]], Meta(max_length=MAX_TAGS)]
RepeatNumber = Annotated[int, Meta(ge=0, le=10**9)]
Vector = Annotated[list[float], Meta(min_length=1, max_length=MAX_DIMENSIONS)]
Sketch = Annotated[bytes, Meta(max_length=1_024)]
UnitInterval = Annotated[float, Meta(ge=0.0, le=1.0)]
CustomScores = Annotated[dict[Id, UnitInterval], Meta(max_length=MAX_CUSTOM_SCORES)]
_Seconds = Annotated[float, Meta(ge=0.0, le=LATEST)]
_Zoned = Annotated[datetime, Meta(tz=True)]


class Chunk(Struct, frozen=True, omit_defaults=True, gc=False):
    """One retrieved passage."""

    id: Id
    score: Score | None = None
    text: Text | None = None
    source: Annotated[str, Meta(max_length=4096)] | None = None


class Latency(Struct, frozen=True, omit_defaults=True, gc=False):
    """Milliseconds by stage."""

    total: Milliseconds | None = None
    retrieval: Milliseconds | None = None
    generation: Milliseconds | None = None


class Tokens(Struct, frozen=True, omit_defaults=True, gc=False):
    """Tokens of the model calls."""

    prompt: Annotated[int, Meta(ge=0, le=10**12)] | None = None
    completion: Annotated[int, Meta(ge=0, le=10**12)] | None = None


if TYPE_CHECKING:  # After __post_init__ these are always the simple form.
    Timestamp = float
    LatencyByStage = Latency
    Rating = float
else:
    Timestamp = _Seconds | _Zoned | None
    LatencyByStage = Latency | Milliseconds
    Rating = Annotated[float, Meta(ge=-1.0, le=1.0)] | Literal["positive", "negative"]

_RATINGS = {"positive": 1.0, "negative": -1.0}


def timestamp_of(value: Any) -> float:
    """The unix seconds of decoded JSON: what ``timestamp`` of a record would be.

    Raises:
        msgspec.ValidationError: it is no time.
    """
    return _unix_seconds(msgspec.convert(value, Timestamp))


def _unix_seconds(value: Any) -> float:
    """Whatever ``Timestamp`` admits on the wire, as unix seconds."""
    if value is None:
        return UNSTAMPED
    if not isinstance(value, datetime):
        return float(value)
    seconds = value.timestamp()
    return seconds if seconds >= 0.0 else BEFORE_1970


class AnswerStep(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One call that the application made on its way to the answer."""

    kind: Literal["retrieval", "tool"] = "retrieval"
    tool: Name = ""  # its name, where an agent called one
    chunk_ids: Ids | None = None  # that it retrieved, best first; None: not recorded
    failed: bool = False


class Embeddings(Struct, frozen=True, omit_defaults=True, gc=False):
    """Vectors of the question and the answer, by one model."""

    query: Vector
    answer: Vector

    @property
    def similarity(self) -> float | None:
        """Their cosine, in [-1, 1]; None where one of them is zero.

        Raises:
            ValueError: they are of different lengths.
        """
        if len(self.query) != len(self.answer):
            raise ValueError("`embeddings.query` and `embeddings.answer` differ in length")
        lengths = math.hypot(*self.query) * math.hypot(*self.answer)
        if not 0.0 < lengths < math.inf:
            return None
        cosine: float = sum(map(operator.mul, self.query, self.answer)) / lengths
        return min(max(cosine, -1.0), 1.0)


def sketch_of(vector: list[float]) -> bytes | None:
    """The sketch of an embedding; None for one of zeros."""
    from ragmon.embedding_sketch import sketch  # noqa: PLC0415 - numpy, for who sends vectors

    return sketch(vector)


class QueryRecord(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One logged RAG query.

    On the wire ``timestamp`` may be RFC 3339 or unix seconds, ``latency_ms`` a number or an
    object and ``feedback`` a word or a number; in memory they are unix seconds, ``Latency``
    and a rating in [-1, 1].
    """

    query_id: Name = ""
    timestamp: Timestamp = UNSTAMPED
    pipeline: Id = "default"
    version: Name = ""
    tags: Tags | None = None
    query: Text | None = None
    answer: Text | None = None
    chunks: Annotated[list[Chunk], Meta(max_length=MAX_CHUNKS)] | None = None
    citations: Ids | None = None
    latency_ms: LatencyByStage | None = None
    feedback: Rating | None = None
    relevant_ids: Ids | None = None
    grades: Grades | None = None
    error: Annotated[str, Meta(max_length=MAX_TEXT)] | None = None
    model: Name | None = None
    tokens: Tokens | None = None
    cost_usd: Annotated[float, Meta(ge=0.0, le=1e9)] | None = None
    session_id: Name | None = None
    user_id: Name | None = None
    trace_id: Name | None = None
    span_id: Name | None = None
    environment: Name | None = None
    retrieval_query: Text | None = None  # what the retriever was asked, where it is not ``query``
    steps: Annotated[list[AnswerStep], Meta(max_length=MAX_STEPS)] | None = None  # in their order
    query_answer_similarity: Annotated[float, Meta(ge=-1.0, le=1.0)] | None = None  # cosine
    embeddings: Embeddings | None = None  # on the wire only: they become the similarity
    embedding: Vector | None = None  # of the query; on the wire only: it becomes the sketch
    embedding_sketch: Sketch | None = None  # see ``ragmon.embedding_sketch``
    repeat: RepeatNumber = msgspec.field(default=0, name="repeat_number")  # by ``ragmon.repeats``

    def __post_init__(self) -> None:
        timestamp: Any = self.timestamp
        if timestamp.__class__ is not float:
            force_setattr(self, "timestamp", _unix_seconds(timestamp))
        latency: Any = self.latency_ms
        if latency.__class__ is float:
            force_setattr(self, "latency_ms", Latency(total=latency))
        feedback: Any = self.feedback
        if feedback.__class__ is str:
            force_setattr(self, "feedback", _RATINGS[feedback])
        if self.embeddings is not None:
            force_setattr(self, "query_answer_similarity", self.embeddings.similarity)
            force_setattr(self, "embeddings", None)
        if self.embedding is not None:
            force_setattr(self, "embedding_sketch", sketch_of(self.embedding))
            force_setattr(self, "embedding", None)


class Feedback(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A user's rating of one answer; the newest by ``timestamp`` counts."""

    query_id: Id
    rating: Rating
    comment: Annotated[str, Meta(max_length=MAX_FEEDBACK_TEXT)] | None = None
    timestamp: Timestamp = UNSTAMPED

    def __post_init__(self) -> None:
        timestamp: Any = self.timestamp
        if timestamp.__class__ is not float:
            force_setattr(self, "timestamp", _unix_seconds(timestamp))
        rating: Any = self.rating
        if rating.__class__ is str:
            force_setattr(self, "rating", _RATINGS[rating])


class Label(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Ground truth for one query, by one labeller, who may revise it."""

    query_id: Id
    labeller: Id = "human"
    relevant_ids: Ids | None = None
    grades: Grades | None = None
    faithful: UnitInterval | None = None
    scores: CustomScores = {}  # by the custom judge that asks the same
    timestamp: Timestamp = UNSTAMPED
    withdrawn: bool = False  # takes back what this labeller said before

    def __post_init__(self) -> None:
        timestamp: Any = self.timestamp
        if timestamp.__class__ is not float:
            force_setattr(self, "timestamp", _unix_seconds(timestamp))
        is_empty = self.relevant_ids is None and self.grades is None and self.faithful is None
        if (is_empty and not self.scores) is not self.withdrawn:
            raise ValueError(
                "a label needs `relevant_ids`, `grades`, `faithful` or `scores`; or `withdrawn`"
            )


class Doubt(Struct, frozen=True):
    """A stretch of an answer that a judge does not find in the context."""

    start: int  # characters of the answer
    end: int
    reason: str
    detail: str
    support: float  # in [0, 1]


class Verdict(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A judge's scores of one answer; a newer verdict of the same judge replaces it."""

    query_id: Id
    judge: Id
    score: UnitInterval | None = None  # None: could not be judged, see ``reason``
    reason: str = ""
    probability: float = 1.0  # with which the answer was drawn for judging, in (0, 1]
    doubts: tuple[Doubt, ...] = ()
    traits: tuple[float, ...] = ()  # what a calibration may learn from
    raw: float | None = None  # the score before a calibration changed it
    doubted_below: float | None = None  # where a calibration cuts; None: as configured
    marked_grounded: bool = False  # labels prove nine in ten of the answers marked faithful
    scores: dict[str, float] = {}  # of a judge that says more than faithfulness, by metric
    useful: tuple[str, ...] | None = None  # ids of the chunks it found useful, best first
    rationale: str = ""
    version: str = ""
    timestamp: float = 0.0

    @property
    def failed(self) -> bool:
        """The judge gave no verdict at all, not even that nothing can be said."""
        return bool(self.reason)


class Draw(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answer that the sampled judge could have been asked about, drawn or not.

    What is fixed here weighs the verdict later, so it is never changed, except that a later
    round of drawing raises the probability.
    """

    query_id: Id
    probability: float  # with which it was drawn, whatever came of it; in (0, 1]
    proxy: float  # the embedded judge's score, or a fixed number where it has none
    share: float = 1.0  # part of the probability: with which it was looked at, in (0, 1]
    drawn: bool = False
    round: int = 0
    timestamp: float = 0.0


class Amendments(Struct, frozen=True, omit_defaults=True):
    """Feedback, labels and verdicts of a query that came after it was logged."""

    feedback: Feedback | None = None
    labels: tuple[Label, ...] = ()  # one a labeller and what it speaks of
    verdicts: tuple[Verdict, ...] = ()  # one a judge
    draw: Draw | None = None
    revision: QueryRecord | None = None  # the query as it was mapped again, in place of the first


class Position(Struct, frozen=True):
    """Place up to which a shard of the store was counted: next record, last restatement."""

    sequence: int = 0
    restatement: int = 0


Positions = Mapping[int, Position]
"""Place up to which each shard was counted, by its number; without one, nothing was."""

ONLY_SHARD = 0  # of an embedded store

_NUMBER_BITS = 40  # of a record within its shard: a million million


def number_of(shard: int, sequence: int) -> int:
    """Number of a record among those of all shards; of shard 0 it is its sequence number.

    Numbers order records by shard, then as they were committed. As many as 8 million shards fit
    64 bits.
    """
    return (shard << _NUMBER_BITS) + sequence


def shard_of(number: int) -> int:
    """The shard of a record, by its number."""
    return number >> _NUMBER_BITS


def sequence_of(number: int) -> int:
    """The sequence number of a record within its shard, by its number."""
    return number & ((1 << _NUMBER_BITS) - 1)
