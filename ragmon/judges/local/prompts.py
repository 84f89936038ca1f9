"""Layout of texts as the authors of each model trained it; a model reads nothing else as well.

Sources: LettuceDetect (KRLabsOrg/LettuceDetect, detectors/prompt_utils.py and prompts/), HHEM-2.1
(its model card on the hub), MiniCheck (Liyan06/MiniCheck, minicheck/inference.py).
"""

from collections.abc import Sequence
from string import Template

_QUESTION = Template(
    "Briefly answer the following question:\n"
    "$question\n"
    "Bear in mind that your response should be strictly based on the following $num_passages "
    "passages:\n"
    "$context\n"
    "In case the passages do not contain the necessary information to answer the question, please "
    'reply with: "Unable to answer based on given passages."\n'
    "output:"
)
_SUMMARY = Template("Summarize the following text:\n$text\noutput:")
_HHEM = (
    "<pad> Determine if the hypothesis is true given the premise?\n\n"
    "Premise: {premise}\n\nHypothesis: {hypothesis}"
)


class LettucePrompt:
    """Prompt of LettuceDetect, which stands before the answer."""

    def __init__(self, template: str | None = None, passage_word: str = "passage") -> None:
        """Make it.

        Args:
            template: of a model that is not English; None: the English one.
            passage_word: before the number of each passage.
        """
        self._template = _QUESTION if template is None else Template(template)
        self._has_summary = template is None
        self._word = passage_word

    def text(self, question: str, passages: Sequence[str]) -> str:
        """The prompt; without a question that of a summary, where there is one."""
        context = "\n".join(self.line(rank, text) for rank, text in enumerate(passages, 1))
        if not question and self._has_summary:
            return _SUMMARY.substitute(text=context)
        return self._template.safe_substitute(
            question=question, num_passages=len(passages), context=context
        )

    def line(self, rank: int, text: str) -> str:
        """One passage in it."""
        return f"{self._word} {rank}: {text}"


def hhem(premise: str, hypothesis: str) -> str:
    """Text that HHEM reads."""
    return _HHEM.format(premise=premise, hypothesis=hypothesis)


def minicheck(document: str, claim: str, separator: str, *, is_t5: bool) -> str:
    """Text that MiniCheck reads; the separator is its tokenizer's end of sequence."""
    return ("predict: " if is_t5 else "") + document + separator + claim
