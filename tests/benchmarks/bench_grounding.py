"""Measures the grounding judge against human labels and writes grounding.md beside this file.

Run ``python tests/benchmarks/bench_grounding.py``. Needs the data named in
``ragmon.judges.training.corpus``; without them it says so and measures speed alone.
"""

import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from ragmon.judges import grounding
from ragmon.judges.grounding import words
from ragmon.judges.grounding.fitting import CalibrationExample, marking
from ragmon.judges.grounding.fitting import fit as fit_calibration
from ragmon.judges.grounding.lexicon import STOP_WORDS
from ragmon.judges.grounding.model import ARTEFACT, Artefact
from ragmon.judges.training import corpus, fit
from ragmon.judges.training.corpus import Example
from ragmon.judges.training.grounding import joined
from ragmon.judges.worker import AnswerToRead, ConversationBatches, EmbeddedBatches
from ragmon.stats.calibration_error import calibration_error

ROOT = Path(__file__).parents[2]
REPORT = Path(__file__).with_name("grounding.md")
FOLDS = 5
RESAMPLES = 1_000
DRAWS = 40
JOINED_A_FOLD = 240
OVERLAP = 0.70  # the published lexical rule: supported from this share of words on
RIGHT = 0.5
MARKING_DRAWS = 300
BY_HAND = "## Other languages"  # from here on the report is not written by this benchmark


class Judged:
    """Answers with scores; those without a score are left out and counted."""

    def __init__(self, pairs: Sequence[tuple[Example, grounding.GroundingResult]]) -> None:
        kept = [(e, g) for e, g in pairs if g.score is not None]
        self.unjudged = len(pairs) - len(kept)
        self.examples = [e for e, _ in kept]
        self.results = [g for _, g in kept]
        self.supported = np.array([not e.hallucinated for e in self.examples])
        self.scores = np.array([g.score for g in self.results])
        groups = {e.group: i for i, e in enumerate(self.examples)}
        self.groups = np.array([groups[e.group] for e in self.examples])

    def where(self, keep: Callable[[Example], bool]) -> "Judged":
        return Judged([p for p in zip(self.examples, self.results, strict=True) if keep(p[0])])


def auroc(supported, scores):
    """Chance that a supported answer scores above an unsupported one; ties count half."""
    order = np.argsort(scores, kind="stable")
    values, inverse, counts = np.unique(scores[order], return_inverse=True, return_counts=True)
    rank = np.cumsum(counts) - (counts - 1) / 2.0
    ranks = rank[inverse]
    positive = supported[order]
    n, m = positive.sum(), (~positive).sum()
    if n == 0 or m == 0 or len(values) == 0:
        return float("nan")
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * m))


def balanced_accuracy(supported, kept):
    return float((kept[supported].mean() + (~kept)[~supported].mean()) / 2)


def interval(judged, measure):
    """(estimate, low, high) at 95 % from resampling groups."""
    rng = np.random.default_rng(0)
    rows = [np.flatnonzero(judged.groups == g) for g in np.unique(judged.groups)]
    seen = []
    for _ in range(RESAMPLES):
        picked = np.concatenate([rows[i] for i in rng.integers(0, len(rows), len(rows))])
        if 0 < judged.supported[picked].sum() < len(picked):
            seen.append(measure(judged.supported[picked], picked))
    whole = measure(judged.supported, np.arange(len(judged.supported)))
    return whole, *np.percentile(seen, [2.5, 97.5])


def overlap(example):
    """Share of the answer's distinct content words that the context holds."""

    def bag(text):
        return {w for w in words.TOKEN.findall(text.lower()) if w not in STOP_WORDS}

    answer = bag(example.answer)
    return len(answer & bag(" ".join(example.context))) / max(1, len(answer))


def judge_all(artefact: Artefact, examples: Sequence[Example]) -> Judged:
    return Judged(pairs(artefact, examples))


def pairs(artefact, examples):
    judge = grounding.GroundingJudge(artefact)
    return [(e, judge.score(e.query, e.answer, e.context)) for e in examples]


def cross_validated(data: dict[str, list[Example]]) -> dict[str, Judged]:
    """Each answer judged by an artefact that saw nothing of its group."""
    found: dict[str, list] = {name: [] for name in (*data, "joined")}
    for fold in range(FOLDS):

        def held_out(example, fold=fold):
            return corpus.fold_of(example.group, FOLDS) == fold

        parts = {name: corpus.split(examples, held_out) for name, examples in data.items()}
        artefact = fit.fit([train for train, _ in parts.values()], joined(parts["claims"][0]))
        held = {name: test for name, (_, test) in parts.items()}
        held["joined"] = joined(held["claims"], JOINED_A_FOLD)
        for name, test in held.items():
            found[name] += pairs(artefact, test)
    return {name: Judged(p) for name, p in found.items()}


def row(title: str, judged: Judged) -> str:
    scores, supported = judged.scores, judged.supported
    lexical = np.array([overlap(e) for e in judged.examples])
    length = -np.array([len(e.answer) for e in judged.examples])
    ours = interval(judged, lambda y, i: auroc(y, scores[i]))
    accuracy = interval(judged, lambda y, i: balanced_accuracy(y, scores[i] >= RIGHT))
    return (
        f"| {title} | {len(scores)} ({judged.unjudged}) "
        f"| **{ours[0]:.3f}** [{ours[1]:.3f}, {ours[2]:.3f}] "
        f"| {accuracy[0]:.3f} [{accuracy[1]:.3f}, {accuracy[2]:.3f}] "
        f"| {auroc(supported, lexical):.3f} "
        f"| {balanced_accuracy(supported, lexical >= OVERLAP):.3f} "
        f"| {auroc(supported, length):.3f} |"
    )


HEAD = (
    "| answers | n (no score) | AUROC [95 %] | balanced accuracy at 0.5 [95 %] | AUROC overlap "
    "| balanced accuracy overlap >= 0.70 | AUROC length |\n|---|---|---|---|---|---|---|"
)


def accuracy_tables(data: dict[str, list[Example]]) -> list[str]:
    folded = cross_validated(data)
    mtrag, claims = data["mtrag"], data["claims"]
    generators = sorted({e.generator for e in mtrag})
    subsets = sorted({e.subset for e in claims})
    lines = ["", "## Grouped cross-validation, trained on both data sets", "", HEAD]
    lines.append(row("MTRAG", folded["mtrag"]))
    lines += [
        row(f"MTRAG, {g}", folded["mtrag"].where(lambda e, g=g: e.generator == g))
        for g in generators
    ]
    lines.append(row("AttributionBench", folded["claims"]))
    lines += [
        row(f"AttributionBench, {s}", folded["claims"].where(lambda e, s=s: e.subset == s))
        for s in subsets
    ]
    lines.append(row("claims joined into answers, wrong when any is", folded["joined"]))
    lines += ["", "## Transfer: nothing of the judged data set was trained on", "", HEAD]
    unseen = judge_all(fit.fit([claims], joined(claims)), mtrag)
    lines.append(row("AttributionBench to MTRAG", unseen))
    lines += [
        row(f"AttributionBench to MTRAG, {g}", unseen.where(lambda e, g=g: e.generator == g))
        for g in generators
    ]
    lines.append(row("MTRAG to AttributionBench", judge_all(fit.fit([mtrag]), claims)))
    for subset in subsets:
        others, held = corpus.split(claims, lambda e, s=subset: e.subset == s)
        artefact = fit.fit([mtrag, others], joined(others))
        lines.append(row(f"all but {subset} to {subset}", judge_all(artefact, held)))
    return lines


def unseen_pipelines(data: dict[str, list[Example]]) -> dict[str, Judged]:
    """Data sets judged by an artefact that saw nothing of them, as a pipeline's answers are."""
    mtrag, claims = data["mtrag"], data["claims"]
    foreign = judge_all(fit.fit([claims], joined(claims)), mtrag)
    cases = {"AttributionBench to MTRAG": foreign}
    away = judge_all(fit.fit([mtrag]), claims)
    for subset in sorted({e.subset for e in claims}):
        cases[f"MTRAG to {subset}"] = away.where(lambda e, s=subset: e.subset == s)
    return cases


def calibration_table(cases: dict[str, Judged]) -> list[str]:
    lines = [
        "",
        "## Calibration with local labels",
        "",
        f"Means over {DRAWS} draws of labelled answers; measured on the answers of other groups.",
        "",
        "| pipeline | labels | AUROC | balanced accuracy | log loss (nats) |",
        "|---|---|---|---|---|",
    ]
    for title, judged in cases.items():
        for count in (50, 100):
            before, after = np.mean(
                [_calibrated(judged, count, seed) for seed in range(DRAWS)], axis=0
            )
            changes = [f"{b:.3f} to {a:.3f}" for b, a in zip(before, after, strict=True)]
            lines.append(f"| {title} | {count} | {' | '.join(changes)} |")
    return lines


def error_table(cases: dict[str, Judged]) -> list[str]:
    """Expected calibration error on answers that were not labelled, as the daemon calibrates."""
    lines = [
        "",
        "## Calibration error",
        "",
        f"Expected calibration error of the answers without a label, {DRAWS} draws of labelled",
        "answers. So few answers show an error by chance alone: in brackets what a perfect",
        "judge would show, and then the error without it (the root of the difference of the",
        "squares). The goal is 0.05 after 100 labels.",
        "",
        "| pipeline | labels | refused | shipped | calibrated | shipped beyond chance | beyond |",
        "|---|---|---|---|---|---|---|",
    ]
    for title, judged in cases.items():
        for count in (50, 100, 200):
            if len(judged.scores) < count + 40:
                continue
            draws = np.array([_errors(judged, count, seed) for seed in range(DRAWS)])
            refused, shipped, read, chance, shipped_chance = draws.mean(axis=0)
            lines.append(
                f"| {title} | {count} | {refused:.0%} | {shipped:.3f} ({shipped_chance:.3f}) "
                f"| {read:.3f} ({chance:.3f}) | {_beyond(shipped, shipped_chance):.3f} "
                f"| **{_beyond(read, chance):.3f}** |"
            )
    return lines


def _beyond(error, chance):
    return max(0.0, error**2 - chance**2) ** 0.5


def _errors(judged: Judged, count: int, seed: int):
    """(refused, error as shipped, error calibrated, and what chance has of both)."""
    order = np.random.default_rng(seed).permutation(len(judged.scores))
    labelled, unseen = order[:count], order[count:]
    fitted = fit_calibration([_example(judged, i) for i in labelled], "", RIGHT)
    shipped = read = judged.scores[unseen]
    if not isinstance(fitted, str):
        pairs_of = [(judged.scores[i], judged.results[i].traits) for i in unseen]
        read = np.array([grounding.apply(fitted, *pair) for pair in pairs_of])
    before, after = (calibration_error(p, judged.supported[unseen]) for p in (shipped, read))
    refused = isinstance(fitted, str)
    return refused, before.value, after.value, after.by_chance, before.by_chance


def _example(judged: Judged, at: int) -> CalibrationExample:
    truth = float(judged.supported[at])
    return CalibrationExample(float(judged.scores[at]), truth, 1.0, judged.results[at].traits)


def marking_table(cases: dict[str, Judged]) -> list[str]:
    """How often the promise on answers marked grounded is broken, and for how many it is made."""
    lines = [
        "",
        "## Answers marked grounded",
        "",
        "The promise: of the answers marked at least 90 % are supported, with 95 %",
        f"confidence. Labelled answers are drawn {MARKING_DRAWS} times with a share of",
        "supported ones as given, and the whole set is marked by what they prove. Broken:",
        "draws in which fewer than 90 % of all marked answers are supported; at most 5 % may",
        "be. Proven: draws in which anything is marked. Marked: share of all answers that is",
        "marked, over all draws. Right: share of the marked answers that is supported.",
        "",
        "| pipeline | supported | labels | broken | proven | marked | right |",
        "|---|---|---|---|---|---|---|",
    ]
    for title, judged in cases.items():
        share = float(judged.supported.mean())
        for supported in (share, 0.85, 0.95):
            for count in (100, 200, 400):
                broken, proven, marked, right = _promise(judged, supported, count)
                lines.append(
                    f"| {title} | {supported:.0%} | {count} | {broken:.1%} | {proven:.0%} "
                    f"| {marked:.0%} | {f'{right:.1%}' if marked else '–'} |"
                )
    return lines


def _promise(judged: Judged, supported: float, count: int) -> tuple[float, float, float, float]:
    good = judged.supported
    weights = np.where(good, supported / good.sum(), (1.0 - supported) / (~good).sum())
    shares, right, broken = np.zeros(MARKING_DRAWS), 0.0, 0
    for seed in range(MARKING_DRAWS):
        drawn = np.random.default_rng(seed).choice(len(good), count, p=weights)
        bound = marking([_example(judged, i) for i in drawn], RIGHT)
        if bound is None:
            continue
        marked = weights * (judged.scores >= bound.floor)
        shares[seed] = marked.sum()
        right += marked[good].sum()
        broken += marked[good].sum() < 0.9 * marked.sum()
    total = shares.sum()
    return broken / MARKING_DRAWS, float((shares > 0).mean()), shares.mean(), right / (total or 1.0)


def conversation_table(mtrag: list[Example], artefact: Artefact) -> list[str]:
    """MTRAG's conversations, read alone and with what was retrieved in the two turns before."""
    retrieved = {example.group: example.context for example in mtrag}
    own, moved = [], []
    for example in mtrag:
        before = _chunks_before(example, retrieved)
        if before:
            own.append((example, example.context, before))
        following = retrieved.get(_turn(example.group, 1), [])
        if following and not set(following) & set(example.context):
            moved.append((example, following, example.context))
    lines = [
        "",
        "## Conversations",
        "",
        "Answers of MTRAG that have turns before them, with their own chunks; and answers moved",
        "by a turn, so that what they rest on was retrieved in the turn before. The artefact saw",
        "nothing of MTRAG.",
        "",
        "| answers | n | read | AUROC | supported called grounded | unsupported called grounded |",
        "|---|---|---|---|---|---|",
    ]
    for title, cases in (
        ("resting on their own chunks", own),
        ("resting on the turn before", moved),
    ):
        for way, results in _ways(artefact, cases).items():
            judged = Judged(list(zip([example for example, _, _ in cases], results, strict=True)))
            good, grounded = judged.supported, judged.scores >= RIGHT
            lines.append(
                f"| {title} | {len(good)} | {way} | {auroc(good, judged.scores):.3f} "
                f"| {grounded[good].mean():.3f} | {grounded[~good].mean():.3f} |"
            )
    return lines


def _ways(artefact, cases):
    single = EmbeddedBatches(grounding.GroundingJudge(artefact))
    alone = [AnswerToRead(e.query, e.answer, chunks) for e, chunks, _ in cases]
    pairs_of = zip(alone, cases, strict=True)
    earlier = [case._replace(earlier=tuple(before)) for case, (_, _, before) in pairs_of]
    joint = [case._replace(chunks=[*case.chunks, *case.earlier], earlier=()) for case in earlier]
    return {
        "alone": single.judge(alone),
        "all chunks as its own": single.judge(joint),
        "doubted ones again": ConversationBatches(single).judge(earlier),
    }


def _turn(group: str, step: int) -> str:
    conversation, _, number = group.rpartition("<::>")
    return f"{conversation}<::>{int(number) + step}"


def _chunks_before(example: Example, retrieved: dict[str, list[str]]) -> list[str]:
    groups = [_turn(example.group, -1), _turn(example.group, -2)]
    chunks = [chunk for group in groups for chunk in retrieved.get(group, [])]
    return [chunk for chunk in dict.fromkeys(chunks) if chunk not in example.context]


def _calibrated(judged: Judged, count: int, seed: int):
    """((AUROC, balanced accuracy, log loss) as shipped, the same calibrated)."""
    rng = np.random.default_rng(seed)
    place = rng.permutation(judged.groups.max() + 1)[judged.groups]
    order = np.argsort(place, kind="stable")
    known = order[:count]
    unseen = order[count:][~np.isin(judged.groups[order[count:]], judged.groups[known])]
    traits = [g.traits for g in judged.results]
    calibration = grounding.calibrate(
        judged.scores[known], judged.supported[known], traits=[traits[i] for i in known]
    )
    supported, shipped = judged.supported[unseen], judged.scores[unseen]
    read = np.array([grounding.apply(calibration, judged.scores[i], traits[i]) for i in unseen])
    return (
        _measures(supported, shipped, RIGHT),
        _measures(supported, read, calibration.threshold),
    )


def _measures(supported, probability, threshold):
    p = np.clip(probability, 1e-6, 1 - 1e-6)
    loss = -np.mean(np.where(supported, np.log(p), np.log(1 - p)))
    return (
        auroc(supported, probability),
        balanced_accuracy(supported, probability >= threshold),
        loss,
    )


def speed_lines() -> list[str]:
    rng = random.Random(1)
    vocabulary = [
        f"{a}{b}{c}" for a in "bdfgklmn" for b in ("a", "e", "ion") for c in ("r", "st", "ng")
    ]
    prose = [*vocabulary, *sorted(STOP_WORDS)]

    def text(count):
        chosen = [rng.choice(prose) for _ in range(count)]
        return ". ".join(" ".join(chosen[i : i + 18]).capitalize() for i in range(0, count, 18))

    cases = [(text(15), text(130), [text(120) for _ in range(5)]) for _ in range(400)]
    long = [(text(15), text(130), [text(5_000) for _ in range(20)]) for _ in range(40)]
    lines = ["", "## Speed and size", "", "| | mean ms | p95 ms | p99 ms |", "|---|---|---|---|"]
    for title, given, cache in (
        ("600 context words, 130 answer words, chunks never seen", cases, 1),
        ("the same, chunks seen before", cases, 10_000_000),
        ("100 000 context words, 130 answer words", long, 1),
    ):
        judge = grounding.load(cache_characters=cache)
        for case in given:
            judge.score(*case)
        times = [_cpu_ms(judge, case) for case in given]
        p95, p99 = np.percentile(times, [95, 99])
        lines.append(f"| {title} | {np.mean(times):.2f} | {p95:.2f} | {p99:.2f} |")
    size = (ROOT / "ragmon" / "judges" / "grounding" / ARTEFACT).stat().st_size
    artefact = grounding.load_artefact()
    size_line = (
        f"CPU time of one thread. Artefact: {size:,} bytes, version {artefact.version}, "
        f"{len(artefact.rarity):,} words."
    )
    return [*lines, "", size_line]


def _cpu_ms(judge, case):
    start = time.process_time()
    judge.score(*case)
    return 1e3 * (time.process_time() - start)


LIMITS = """
## What this does not show

- The word lists, the shares, the share of the worst sentence and the rule for answers of up to
  three words were chosen with these answers in sight. Cross-validation and transfer cover the
  fitted numbers, not those choices.
- On MTRAG the plain overlap ranks nearly as well; the judge's gain there is within the noise. It
  is clear on attribution claims, and in the balanced accuracy at a fixed threshold.
- ExpertQA is close to what words cannot tell: its claims share topic and terms with pages that do
  not support them; even the vectors of a sentence transformer reach 0.69. What was tried, with
  figures: ragmon/judges/training/README.md.
- The calibration error meets 0.05 after 200 labels and, but for LFQA, not after 100: how many of
  100 answers happen to be good is alone worth 0.03 to 0.04. Labels are drawn one by one here.
- The promise on marked answers is proven as if the share of supported answers rose with the
  score, and for answers like the labelled ones: labels of an old release promise nothing for the
  next.
- Calibration draws whole groups. LFQA has 15 questions, so 50 labels there come from two to seven
  of them and the share supported differs from the rest: its log loss gets worse. Label across
  many questions.
- "Claims joined into answers" are made from AttributionBench, five folds, whole groups.
- Answers in other languages, JSON and tables are scored with half the log odds, because no labels
  for them were at hand."""


INTRODUCTION = """# Grounding judge: measured

Written by `tests/benchmarks/bench_grounding.py`. Labels are human; "supported" is MTRAG's mean
faithfulness of at least 3.5 of 4, and "attributable" in AttributionBench. Intervals resample
groups (one conversation turn or question with all its answers). "Always yes" has an AUROC and a
balanced accuracy of 0.500 everywhere. "Overlap" is the share of the answer's content words that
occur in the context; "length" calls the shorter answer the better one."""


def _by_hand() -> str:
    """The end of the report, which other commands print."""
    _, head, rest = REPORT.read_text(encoding="utf-8").partition(BY_HAND)
    return head + rest


def main() -> int:
    folder = corpus.data_folder(ROOT)
    lines = [INTRODUCTION]
    if folder is None:
        sys.stdout.write(f"no data: set {corpus.DATA_VARIABLE}; measuring speed only\n")
        sys.stdout.write("\n".join(speed_lines()) + "\n")
        return 0
    files = corpus.FILES
    data = {
        "mtrag": corpus.read(folder / files["mtrag"]),
        "claims": corpus.read(folder / files["attributionbench"]),
    }
    cases = unseen_pipelines(data)
    lines += accuracy_tables(data) + calibration_table(cases) + error_table(cases)
    claims = data["claims"]
    lines += marking_table(cases)
    lines += conversation_table(data["mtrag"], fit.fit([claims], joined(claims)))
    lines += [*speed_lines(), LIMITS, "", _by_hand()]
    REPORT.write_text("\n".join(lines), encoding="utf-8")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
