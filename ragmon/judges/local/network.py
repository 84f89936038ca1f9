"""Forward passes of the four kinds of models, on PyTorch; for the local judge's process alone."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from ragmon.judges.local.findings import TokenScore
from ragmon.judges.local.options import ModelLoadError
from ragmon.judges.local.pair_judge import PairScore
from ragmon.judges.local.prompts import hhem, minicheck

_T5_UNSUPPORTED, _T5_SUPPORTED = 3, 209
"""Tokens of MiniCheck's T5 whose chances are compared."""


class LoadedModel(NamedTuple):
    """A model with its tokenizer, ready to be run."""

    model: Any
    tokenizer: Any
    version: str
    window: int  # tokens


class Network:
    """Runs texts in batches of like length, so that little is padded."""

    def __init__(self, loaded: LoadedModel, batch: int) -> None:
        self._model = loaded.model
        self._tokenizer = loaded.tokenizer
        self._batch = batch
        self.version = loaded.version
        self.window = loaded.window

    @property
    def labels(self) -> dict[int, str]:
        """Names of the classes."""
        labels: dict[int, str] = self._model.config.id2label
        return labels

    @property
    def end_of_text(self) -> str:
        """The tokenizer's token between two texts."""
        token: str = self._tokenizer.eos_token
        return token

    def count(self, text: str) -> int:
        """Tokens of a text, without special ones."""
        encoded = self._tokenizer(text, add_special_tokens=False, verbose=False)
        return len(encoded["input_ids"])

    def encode(self, texts: Sequence[Any], **options: Any) -> list[Any]:
        """Each text, or pair of texts, as the model reads it; cut to the window at worst."""
        paired = [text if isinstance(text, tuple) else (text,) for text in texts]
        truncation = "only_first" if any(len(parts) > 1 for parts in paired) else True
        return [
            self._tokenizer(*parts, truncation=truncation, max_length=self.window, **options)
            for parts in paired
        ]

    def run(self, encoded: Sequence[Any], **inputs: Any) -> Iterator[tuple[int, Any]]:
        """Number and logits of each text, in any order; the padding after it has its own."""
        order = sorted(range(len(encoded)), key=lambda at: len(encoded[at]["input_ids"]))
        names = [name for name in self._tokenizer.model_input_names if encoded[0].get(name)]
        for first in range(0, len(order), self._batch):
            numbers = order[first : first + self._batch]
            rows = [{name: encoded[at][name] for name in names} for at in numbers]
            batch = self._tokenizer.pad(rows, return_tensors="pt").to(self._model.device)
            more = {name: torch.tensor([value] * len(rows)) for name, value in inputs.items()}
            more = {name: value.to(self._model.device) for name, value in more.items()}
            with torch.inference_mode():
                logits = self._model(**batch, **more).logits.float()
                _wait(logits.device)
                logits = logits.cpu()
            yield from zip(numbers, logits, strict=True)


class TokenNetwork(Network):
    """LettuceDetect: two classes of tokens, supported and not."""

    def tokens(self, pairs: Sequence[tuple[str, str]]) -> list[list[TokenScore]]:
        """See ``TokenClassifier``."""
        if not pairs:
            return []
        encoded = self.encode(pairs, return_offsets_mapping=True)
        scores: list[list[TokenScore]] = [[] for _ in pairs]
        for number, logits in self.run(encoded):
            chances = torch.softmax(logits, dim=-1)[:, 1].tolist()
            places = encoded[number]["offset_mapping"]
            for at, part in enumerate(encoded[number].sequence_ids()):
                begin, end = places[at]
                if part == 1 and begin < end:
                    scores[number].append(TokenScore(begin, end, chances[at]))
        return scores


class HhemNetwork(Network):
    """HHEM: the head over the first token of a prompt, class 1 consistent."""

    def pairs(self, pairs: Sequence[tuple[str, str]]) -> list[PairScore]:
        """See ``PairScorer``."""
        encoded = self.encode([hhem(*pair) for pair in pairs])
        return _in_order(len(pairs), self._scores(encoded) if pairs else ())

    def _scores(self, encoded: Sequence[Any]) -> Iterator[tuple[int, PairScore]]:
        for number, logits in self.run(encoded):
            yield number, PairScore(float(torch.softmax(logits[0], dim=-1)[1]))


class MiniCheckNetwork(Network):
    """MiniCheck on RoBERTa and DeBERTa: class 1 is supported."""

    def pairs(self, pairs: Sequence[tuple[str, str]]) -> list[PairScore]:
        """See ``PairScorer``."""
        texts = [minicheck(*pair, self.end_of_text, is_t5=False) for pair in pairs]
        return _in_order(len(pairs), self._scores(self.encode(texts)) if pairs else ())

    def _scores(self, encoded: Sequence[Any]) -> Iterator[tuple[int, PairScore]]:
        for number, logits in self.run(encoded):
            yield number, PairScore(float(torch.softmax(logits, dim=-1)[1]))


class MiniCheckT5Network(Network):
    """MiniCheck on T5: two tokens that the decoder may begin with."""

    def pairs(self, pairs: Sequence[tuple[str, str]]) -> list[PairScore]:
        """See ``PairScorer``."""
        texts = [minicheck(*pair, self.end_of_text, is_t5=True) for pair in pairs]
        return _in_order(len(pairs), self._scores(self.encode(texts)) if pairs else ())

    def _scores(self, encoded: Sequence[Any]) -> Iterator[tuple[int, PairScore]]:
        for number, logits in self.run(encoded, decoder_input_ids=[0]):
            both = logits[0, [_T5_UNSUPPORTED, _T5_SUPPORTED]]
            yield number, PairScore(float(torch.softmax(both, dim=-1)[1]))


class NliNetwork(Network):
    """Natural language inference: the classes are found by their names."""

    def __init__(self, loaded: LoadedModel, batch: int) -> None:
        """Raises ModelLoadError when no class is called entailment."""
        super().__init__(loaded, batch)
        named = {name.lower(): number for number, name in self.labels.items()}
        places = [number for name, number in named.items() if name.startswith("entail")]
        if not places:
            raise ModelLoadError(
                f"no class of the model is called entailment, but {sorted(named)}",
                hint="Name the classes in id2label of its config.json",
            )
        self._entailment = places[0]
        against = (number for name, number in named.items() if name.startswith("contradict"))
        self._contradiction = next(against, None)

    def pairs(self, pairs: Sequence[tuple[str, str]]) -> list[PairScore]:
        """See ``PairScorer``."""
        return _in_order(len(pairs), self._scores(self.encode(pairs)) if pairs else ())

    def _scores(self, encoded: Sequence[Any]) -> Iterator[tuple[int, PairScore]]:
        for number, logits in self.run(encoded):
            chances = torch.softmax(logits, dim=-1).tolist()
            against = 0.0 if self._contradiction is None else chances[self._contradiction]
            yield number, PairScore(chances[self._entailment], against)


def _in_order(count: int, scores: Iterable[tuple[int, PairScore]]) -> list[PairScore]:
    by_number = dict(scores)
    return [by_number[number] for number in range(count)]


def _wait(device: torch.device) -> None:
    """Sleep until the GPU is done; copying its results would turn a core idly until then."""
    if device.type == "cuda":
        done = torch.cuda.Event(blocking=True)
        done.record()
        done.synchronize()
