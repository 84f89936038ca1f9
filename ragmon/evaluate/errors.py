"""Error of the data of an evaluation."""

from pathlib import Path

from ragmon.errors import RagmonError

NAME_A_RUN = "Pass a file of recorded answers with --run, or a live service with --endpoint"


class DataError(RagmonError):
    """Cases, a run or a baseline cannot be used; the message names file, line and field."""

    def __init__(
        self,
        message: str,
        *,
        path: Path | str = "",
        line: int | None = None,
        field: str = "",
        hint: str = "",
    ) -> None:
        self.path = str(path)
        self.line = line
        self.field = field
        place = ":".join([self.path] * bool(self.path) + [str(line)] * (line is not None))
        super().__init__(": ".join(filter(None, [place, field, message])), hint=hint)
