"""The demo's RAG application: retrieval and answer, each timed."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ragmon.clock import Clock
from ragmon.demo.answerer import Answerer, Extractive, Hasty
from ragmon.demo.corpus import corpus
from ragmon.demo.retriever import Bm25, Down, IndexDownError, Retriever
from ragmon.demo.words import rarity, terms
from ragmon.records import Chunk, Latency

STABLE = "2026.1"
FAST = "2026.2-fast"
TOP_K = 5


class Release(Struct, frozen=True):
    """One version of the application."""

    model: str
    retriever: Retriever
    answerer: Answerer


class ServedQuery(Struct, frozen=True):
    """Result of one question; fields as in ``QueryRecord``."""

    latency_ms: Latency
    model: str
    chunks: list[Chunk] | None = None  # None: the search failed, so nothing is known
    answer: str | None = None
    citations: list[str] | None = None
    error: str | None = None
    used: frozenset[str] = frozenset()  # ids the answer was truly taken from; not logged


class Application:
    """Answers questions over its chunks, in one of several releases.

    Args:
        chunks: what is searched.
        releases: by version.
        clock: measures the stages.
    """

    def __init__(
        self, chunks: Sequence[Chunk], releases: Mapping[str, Release], clock: Clock
    ) -> None:
        self.chunks = chunks
        self._releases = releases
        self._clock = clock

    @property
    def versions(self) -> tuple[str, ...]:
        """Its releases, the stable one first."""
        return tuple(self._releases)

    def ask(self, query: str, *, version: str, fail_soft: bool = False) -> ServedQuery:
        """Answer one question, measuring each stage.

        Args:
            query: the question.
            version: which release answers.
            fail_soft: treat an index that is down as one that found nothing, as many clients do.
        """
        release = self._releases[version]
        started = self._clock.monotonic()
        try:
            chunks = release.retriever.search(query, TOP_K)
        except IndexDownError as down:
            if not fail_soft:
                failed_ms = self._since_ms(started)
                latency = Latency(total=failed_ms, retrieval=failed_ms)
                return ServedQuery(latency, release.model, error=str(down))
            chunks = []
        retrieval_ms = self._since_ms(started)
        answer = release.answerer.answer(query, chunks)
        total_ms = self._since_ms(started)
        return ServedQuery(
            Latency(total=total_ms, retrieval=retrieval_ms, generation=total_ms - retrieval_ms),
            release.model,
            chunks=chunks,
            answer=answer.text,
            citations=list(answer.citations),
            used=frozenset(answer.used),
        )

    def without_index(self) -> "Application":
        """The same application while its index is down."""
        down = Down()
        releases = {
            version: Release(release.model, down, release.answerer)
            for version, release in self._releases.items()
        }
        return Application(self.chunks, releases, self._clock)

    def _since_ms(self, started: float) -> float:
        return 1000.0 * (self._clock.monotonic() - started)


def build_application(clock: Clock) -> Application:
    """Both releases over the running Python's language reference.

    The fast release searches an index whose build stopped halfway: the longer topics, which come
    last, are missing.

    Raises:
        SettingsError: ``bm25s`` is not installed.
    """
    chunks = corpus()
    careful = Extractive(rarity(terms(chunk.text or "") for chunk in chunks))
    built = chunks[: len(chunks) // 2]
    releases = {
        STABLE: Release("extractive-3", Bm25(chunks), careful),
        FAST: Release("extractive-3-mini", Bm25(built), Hasty(careful, chunks)),
    }
    return Application(chunks, releases, clock)
