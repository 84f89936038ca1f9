"""File of the topics of earlier days, by which topics keep their identity."""

from pathlib import Path

import msgspec
import structlog

from ragmon.topics.grouping import KeptModel

FILE = "topics_kept"
_MOST_PIPELINES = 50
_decode = msgspec.msgpack.Decoder(dict[str, KeptModel]).decode


class KeptTopics:
    """The last topics of each pipeline; of all together under the empty name."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / FILE

    def of(self, pipeline: str) -> KeptModel:
        """Those of a pipeline; none where none are known or the file is damaged."""
        return self._read().get(pipeline, KeptModel(made_at=0.0))

    def keep(self, pipeline: str, kept: KeptModel) -> None:
        """Replace those of a pipeline; the ones made longest ago go when there are many.

        Raises:
            OSError: the file cannot be written.
        """
        every = self._read() | {pipeline: kept}
        newest = sorted(every, key=lambda name: -every[name].made_at)[:_MOST_PIPELINES]
        part = self._path.with_suffix(".part")
        part.write_bytes(msgspec.msgpack.encode({name: every[name] for name in newest}))
        part.replace(self._path)

    def _read(self) -> dict[str, KeptModel]:
        try:
            return _decode(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError) as error:
            structlog.get_logger("topics").warning(
                "kept_topics_unreadable",
                path=str(self._path),
                error=str(error),
                remedy="topics get new ids; if it happens again, check the disk",
            )
            return {}
