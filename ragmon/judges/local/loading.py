"""Models read as they are published, by Transformers; for the local judge's process alone.

Weights are safetensors, or PyTorch's own files without running what they hold. No code that comes
with a model is ever run: HHEM, which brings its own, is T5 with a head for tokens, and is built as
that. A model that lacks weights of its head is refused, since its scores would be random.
"""

import hashlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file
from transformers.utils import cached_file

from ragmon.judges.local import pair_judge
from ragmon.judges.local.network import (
    HhemNetwork,
    LoadedModel,
    MiniCheckNetwork,
    MiniCheckT5Network,
    NliNetwork,
    TokenNetwork,
)
from ragmon.judges.local.options import ModelLoadError, Options, read_prompt
from ragmon.judges.local.pair_judge import SupportJudge
from ragmon.judges.local.prompts import LettucePrompt
from ragmon.judges.local.token_judge import TokenJudge
from ragmon.judges.worker import BatchJudge

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_WINDOWS = {"lettucedetect": 4_096, "hhem": 4_096, "minicheck": 2_048, "nli": 512}
_UNBOUNDED = {"t5", "mt5", "umt5", "deberta", "deberta-v2"}  # their positions are relative
_T5_WORDS, _TOKENS = 500, 400  # of a part of MiniCheck's document
_FAILURES = (OSError, ValueError, ImportError, KeyError, RuntimeError)
_CLASSES = {
    "lettucedetect": "AutoModelForTokenClassification",
    "minicheck": "AutoModelForSequenceClassification",
    "nli": "AutoModelForSequenceClassification",
}


def load(options: Options) -> BatchJudge:
    """The judge with its model, on its device.

    Raises:
        ModelLoadError: it is not there, or not of this kind.
        SettingsError: the prompt cannot be read.
    """
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(max(1, math.ceil(options.max_cpu)))
    device = _device(options)
    try:
        loaded = _hhem(options) if options.kind == "hhem" else _published(options)
        loaded.model.to(device).eval()
    except _FAILURES as error:
        raise ModelLoadError(
            f"judge.local.model {options.model} cannot be loaded: {error}", hint=_remedy(options)
        ) from error
    return _judge(options, loaded)


def _judge(options: Options, loaded: LoadedModel) -> BatchJudge:
    if options.kind == "lettucedetect":
        prompt = LettucePrompt(read_prompt(options), options.passage_word)
        return TokenJudge(TokenNetwork(loaded, options.batch), prompt)
    if options.kind == "hhem":
        hhem = HhemNetwork(loaded, options.batch)
        cut = pair_judge.whole_context(hhem.window, hhem.count)
        return SupportJudge(hhem, cut, scores_whole=True)
    if options.kind == "nli":
        nli = NliNetwork(loaded, options.batch)
        cut = pair_judge.chunks_apart(nli.window, nli.count)
        return SupportJudge(nli, cut, scores_whole=False)
    if loaded.model.config.model_type == "t5":
        t5 = MiniCheckT5Network(loaded, options.batch)
        cut = pair_judge.documents(_T5_WORDS, _words)
        return SupportJudge(t5, cut, scores_whole=False)
    encoder = MiniCheckNetwork(loaded, options.batch)
    cut = pair_judge.documents(min(_TOKENS, encoder.window // 2), encoder.count)
    return SupportJudge(encoder, cut, scores_whole=False)


def _words(text: str) -> int:
    return len(text.split())


def _device(options: Options) -> str:
    has_gpu = torch.cuda.is_available()
    if options.device == "cuda" and not has_gpu:
        raise ModelLoadError(
            "judge.local.device is cuda, but PyTorch sees no GPU",
            hint="Set judge.local.device: auto, or install a PyTorch that was built for it",
        )
    return "cuda" if has_gpu and options.device != "cpu" else "cpu"


def _published(options: Options) -> LoadedModel:
    """A model that Transformers knows by its config.json."""
    source = _source(options)
    here = {"local_files_only": not options.allow_download, "trust_remote_code": False}
    config = transformers.AutoConfig.from_pretrained(source, **here)
    is_t5 = options.kind == "minicheck" and config.model_type == "t5"
    kind = "AutoModelForSeq2SeqLM" if is_t5 else _CLASSES[options.kind]
    if hasattr(config, "reference_compile"):
        config.reference_compile = False  # ModernBERT would be compiled anew for each length
    model, report = getattr(transformers, kind).from_pretrained(
        source, config=config, dtype=torch.float32, output_loading_info=True, **here
    )
    _check_weights(report["missing_keys"])
    if not is_t5 and options.kind != "nli" and config.num_labels != 2:
        raise ModelLoadError(
            f"judge.local.model {options.model} has {config.num_labels} classes, not 2",
            hint=f"Is it a model of the kind {options.kind}?",
        )
    tokenizer = transformers.AutoTokenizer.from_pretrained(source, **here)
    return LoadedModel(model, tokenizer, _version(options), _window(options, config, tokenizer))


def _hhem(options: Options) -> LoadedModel:
    """HHEM: its weights in a T5 of the sizes, and with the tokenizer, that it was made from."""
    here = {"local_files_only": not options.allow_download, "trust_remote_code": False}
    config = transformers.AutoConfig.from_pretrained(options.foundation, **here)
    config.num_labels = 2
    model = transformers.T5ForTokenClassification(config)
    weights = {
        name.removeprefix("t5."): value
        for name, value in load_file(_file(options, "model.safetensors")).items()
    }
    shared = weights.get("transformer.shared.weight")
    if shared is not None:  # one table under two names, of which safetensors keeps one
        weights.setdefault("transformer.encoder.embed_tokens.weight", shared)
    report = model.load_state_dict(weights, strict=False)
    _check_weights([*report.missing_keys, *report.unexpected_keys])
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.foundation, **here)
    return LoadedModel(model, tokenizer, _version(options), _window(options, config, tokenizer))


def _check_weights(wrong: list[str] | set[str]) -> None:
    if wrong:
        raise ModelLoadError(
            f"weights are missing or belong to another model: {', '.join(sorted(wrong)[:3])}",
            hint="Its scores would be random; check judge.local.kind and judge.local.model",
        )


def _window(options: Options, config: Any, tokenizer: Any) -> int:
    """Tokens that are read at once: as asked for, and no more than the model has positions."""
    window = options.window or _WINDOWS[options.kind]
    if config.model_type in _UNBOUNDED:
        return window
    reserved = config.pad_token_id + 1 if "roberta" in config.model_type else 0
    positions: int = getattr(config, "max_position_embeddings", window) - reserved
    return min(window, positions, int(tokenizer.model_max_length))


def _version(options: Options) -> str:
    """Kind, name, and a digest of what scores depend on."""
    digest = hashlib.sha256()
    for path in _files(options):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    name = options.model.rstrip("/").rpartition("/")[2].replace("+", "_")
    return f"{options.kind} {name} {digest.hexdigest()[:12]}"


def _files(options: Options) -> Iterator[Path]:
    """The configuration and the weights, which large models have in several files."""
    yield Path(_file(options, "config.json"))
    for name in _WEIGHTS:
        if path := _optional(options, name):
            yield Path(path)
            return
    for name in _INDEXES:
        if index := _optional(options, name):
            parts = json.loads(Path(index).read_bytes())["weight_map"].values()
            yield from (Path(_file(options, part)) for part in sorted(set(parts)))
            return


def _file(options: Options, name: str) -> str:
    """Path of a file of the model.

    Raises:
        OSError: it is not there.
    """
    path: str = cached_file(_source(options), name, local_files_only=not options.allow_download)
    return path


def _optional(options: Options, name: str) -> str | None:
    try:
        return _file(options, name)
    except OSError:
        return None


def _source(options: Options) -> str:
    directory = options.directory
    return options.model if directory is None else str(directory)


def _remedy(options: Options) -> str:
    if options.directory is not None:
        return f"Check the files in {options.directory}, and judge.local.kind"
    if options.allow_download:
        return "Check the name, and that this host reaches the hub"
    return (
        f"Nothing is downloaded: fetch it with `hf download {options.model}`, give its directory, "
        "or set judge.local.allow_download: true"
    )
