"""A question of one's own to the language model: one grade or a yes or no."""

import hashlib
from typing import Literal, TypeVar

from msgspec import Struct

from ragmon.errors import SettingsError
from ragmon.judges.custom.options import Options, read_prompt
from ragmon.judges.llm.claims import numbered_chunks
from ragmon.judges.llm.errors import JudgeError
from ragmon.judges.llm.grades import Grade
from ragmon.judges.llm.question import Conversation, Prompt
from ragmon.judges.llm.verdict import CustomReply, JudgedAnswer

_LABELS = {
    "question": 'the material labelled "question"',
    "answer": 'the material labelled "answer"',
    "context": 'the materials labelled "passage"',
}
_FIELDS = 'Fields: "check" (string), "justification" (string, at most 60 words, written before the '


class GradeReply(Struct, frozen=True):
    """A grade, after its reason."""

    justification: str
    grade: Grade


class CallReply(Struct, frozen=True):
    """Yes or no, after the reason."""

    justification: str
    verdict: Literal["yes", "no"]


Reply = TypeVar("Reply", GradeReply, CallReply)


class CustomQuestion:
    """One custom judge of kind llm; its prompt is read again for each answer."""

    def __init__(self, options: Options) -> None:
        """Raises SettingsError when the prompt cannot be used."""
        self.name = options.name
        self._options = options
        read_prompt(options)

    def ask(self, conversation: Conversation, case: JudgedAnswer) -> CustomReply:
        """The model's opinion of an answer.

        Raises:
            JudgeError: the model gave no usable reply, or the prompt cannot be read any longer.
        """
        try:
            template = read_prompt(self._options)
        except SettingsError as error:
            raise JudgeError("bad_prompt", str(error)) from error
        used = template.get_identifiers()
        material = (
            *(numbered_chunks(case) if "context" in used else ()),
            *([("question", case.query)] if "question" in used else ()),
            ("answer", case.answer),
        )
        task = template.substitute(_LABELS)
        version = hashlib.sha256(template.template.encode()).hexdigest()[:8]
        if self._options.effective_scale == "yes-no":
            fields = f'{_FIELDS}verdict), "verdict" ("yes" or "no").'
            call = conversation.ask(_prompt(self.name, f"{task}\n\n{fields}", material, CallReply))
            return CustomReply(float(call.verdict == "yes"), call.justification[:1_000], version)
        fields = f'{_FIELDS}grade), "grade" (integer from 1, the worst, to 5, the best).'
        graded = conversation.ask(_prompt(self.name, f"{task}\n\n{fields}", material, GradeReply))
        return CustomReply((graded.grade - 1) / 4, graded.justification[:1_000], version)


def _prompt(
    name: str, task: str, material: tuple[tuple[str, str], ...], kind: type[Reply]
) -> Prompt[Reply]:
    return Prompt(name, material, kind, lambda _: "", task=task)
