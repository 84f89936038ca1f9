"""Settings of the local judge, as under ``judge.local``."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from ragmon.errors import RagmonError, SettingsError, extra_hint

Kind = Literal["lettucedetect", "hhem", "minicheck", "nli"]

_NEEDED = ("torch", "transformers")


class ModelLoadError(RagmonError):
    """The local judge's model cannot be loaded."""


class Options(BaseModel):
    """One model and the resources that it may use."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, protected_namespaces=()
    )

    kind: Kind
    """Family of the model: lettucedetect (names the words that are not supported), hhem, minicheck,
    or nli (any model of natural language inference)."""
    model: Annotated[str, Field(min_length=1, max_length=1_024)]
    """Directory with the model's files, or its name on the Hugging Face hub, for example
    KRLabsOrg/lettucedect-base-modernbert-en-v1. A name is looked up in the local cache of the hub
    (HF_HOME) unless allow_download is on."""
    foundation: Annotated[str, Field(min_length=1, max_length=1_024)] = "google/flan-t5-base"
    """Directory or name of the model that an hhem model was made from: it brings the sizes and the
    tokenizer, which hhem lacks. Other kinds ignore it."""
    allow_download: bool = False
    """Download the model from the Hugging Face hub if it is not there."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Processor for the model; auto: the GPU if PyTorch sees one, else the CPU."""
    batch: Annotated[int, Field(ge=1, le=256)] = 16
    """Answers read at a time, and texts that go through the model together. More are faster on a
    GPU and need more memory."""
    max_cpu: Annotated[float, Field(gt=0, le=256)] = 1.0
    """CPU for the local judge, in cores. When that is too little for the traffic, a random sample
    of the answers is graded."""
    window: Annotated[int, Field(ge=256, le=131_072)] | None = None
    """Longest text in tokens that the model reads at once; longer contexts are read in parts. none:
    as the model's authors do (lettucedetect and hhem 4096, minicheck 2048 or what the model can
    take, nli 512)."""
    prompt_file: Path | None = None
    """File with the prompt of a lettucedetect model that is not English, with $question,
    $num_passages and $context, as its authors publish it; none: the English one."""
    passage_word: Annotated[str, Field(min_length=1, max_length=64)] = "passage"
    """Word before the number of each passage in that prompt."""
    proxy: bool = False
    """Choose the answers for the language model, and steady its estimate, by this judge's scores
    instead of the embedded judge's."""

    @property
    def directory(self) -> Path | None:
        """The model's directory; None where it is a name."""
        path = Path(self.model).expanduser()
        is_path = path.is_dir() or self.model.startswith((".", "/", "~"))
        return path if is_path else None


def check(options: Options) -> None:
    """Refuse what the judge's process would refuse, as far as that shows without loading it.

    Raises:
        SettingsError: the extra is not installed, or a file cannot be read.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise SettingsError(
            f"judge.local needs {' and '.join(missing)}",
            hint=extra_hint("local-judge"),
        )
    directory = options.directory
    if directory is not None and not (directory / "config.json").is_file():
        raise SettingsError(
            f"judge.local.model: {directory} has no config.json",
            hint="Give the directory that the model was downloaded to, or its name on the hub",
        )
    read_prompt(options)


def read_prompt(options: Options) -> str | None:
    """The prompt of ``prompt_file``; None for the English one.

    Raises:
        SettingsError: it cannot be read, or lacks a place for the passages.
    """
    if options.prompt_file is None:
        return None
    try:
        prompt = options.prompt_file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"judge.local.prompt_file: {error}") from error
    if "$context" not in prompt and "${context}" not in prompt:
        raise SettingsError(
            f"judge.local.prompt_file: {options.prompt_file} has no $context",
            hint="Write $context where the passages belong, and $question where the question does",
        )
    return prompt
