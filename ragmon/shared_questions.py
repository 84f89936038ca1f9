"""Questions that two slices have in common, as a comparison shows them."""

from msgspec import Struct

from ragmon.api_schema import QueryDetail


class SharedQuestion(Struct, frozen=True, kw_only=True):
    """A question that was asked of both sides of a comparison, with the newest query of each."""

    text: str
    reference: QueryDetail
    candidate: QueryDetail
    reference_times: int  # queries that ask it, of those that were looked through
    candidate_times: int


class SharedQuestions(Struct, frozen=True, kw_only=True):
    """The questions asked of both sides of a comparison, those asked last first."""

    questions: list[SharedQuestion] = []
    reference_read: int = 0  # queries that were looked through
    candidate_read: int = 0
    left_out: int = 0  # shared questions beyond those that are listed
