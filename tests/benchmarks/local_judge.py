"""Measures what an answer costs a local model: CPU or GPU, by size of the model and of the texts.

Run ``python tests/benchmarks/local_judge.py [cpu|cuda]`` where ``ragmon[local-judge]`` is
installed. The models have the published sizes and random weights: speed does not depend on them.
"""

import sys
import time

import torch
import transformers

from ragmon.judges.local import pair_judge
from ragmon.judges.local.network import HhemNetwork, LoadedModel, TokenNetwork
from ragmon.judges.local.pair_judge import SupportJudge
from ragmon.judges.local.prompts import LettucePrompt
from ragmon.judges.local.token_judge import TokenJudge
from ragmon.judges.worker import AnswerToRead
from tests.support import tiny_models

BATCH = 16
ANSWER = "The office opens at nine on weekdays. Paris is the capital of France."
PASSAGE = "The office opens at nine on weekdays and closes at five in the afternoon. "


def lettucedetect(device):
    """LettuceDetect base: ModernBERT with 149 million weights."""
    tokenizer = tiny_models.tokenizer("[CLS]", "[SEP]", "[SEP]")
    model = transformers.ModernBertForTokenClassification(transformers.ModernBertConfig())
    loaded = LoadedModel(model.to(device).eval(), tokenizer, "bench", 4_096)
    return model, TokenJudge(TokenNetwork(loaded, BATCH), LettucePrompt()), loaded


def hhem(device):
    """HHEM: the encoder of T5 base with 110 million weights."""
    tokenizer = tiny_models.tokenizer(None, "</s>", "</s>", pad="<pad>")
    sizes = {"d_model": 768, "d_ff": 2_048, "num_layers": 12, "num_heads": 12, "d_kv": 64}
    config = transformers.T5Config(feed_forward_proj="gated-gelu", vocab_size=32_128, **sizes)
    model = transformers.T5ForTokenClassification(config)
    loaded = LoadedModel(model.to(device).eval(), tokenizer, "bench", 4_096)
    network = HhemNetwork(loaded, BATCH)
    cut = pair_judge.whole_context(network.window, network.count)
    return model, SupportJudge(network, cut, scores_whole=True), loaded


def measured(name, make, device):
    model, judge, loaded = make(device)
    millions = sum(value.numel() for value in model.parameters()) / 1e6
    for tokens in (500, 1_000, 2_000):
        passage, count = PASSAGE, TokenNetwork(loaded, BATCH).count
        while count(passage) < tokens:
            passage += PASSAGE
        cases = [AnswerToRead("When?", ANSWER, [passage])] * (4 if device == "cpu" else 4 * BATCH)
        judge.judge(cases[:1])
        began, cpu = time.perf_counter(), time.process_time()
        judge.judge(cases)
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
        print(
            f"| {name} | {millions:.0f} million | {tokens:,} | {cpu / len(cases):.2f} "
            f"| {len(cases) / took:.2f} |"
        )


def main():
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    torch.set_num_threads(1)
    print("| model | weights | tokens of context | CPU s an answer | answers a second |")
    print("| --- | --- | --- | --- | --- |")
    measured("LettuceDetect base", lettucedetect, device)
    measured("HHEM", hhem, device)


if __name__ == "__main__":
    main()
