"""Topics: do they agree with people's intents and with themselves, are gaps found, what they cost.

    RAGMON_TOPICS_DATA=DIR python tests/benchmarks/bench_topics.py [weeks]

DIR holds public questions, one file a set, a line `intent<TAB>question`: clinc150.tsv,
banking77.tsv, stackoverflow.tsv. The sets are not part of ragmon; without them only the cost is
measured.
"""

import os
import random
import resource
import sys
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import svds

from ragmon.embedding_sketch import sketch
from ragmon.topics.analysis import QueriesRead, topic_list
from ragmon.topics.corpus import CorpusBuilder
from ragmon.topics.grouping import SEED, KeptModel, group
from ragmon.topics.model import fit, kept
from ragmon.topics.terms import TermReader

SETS = ("clinc150", "banking77", "stackoverflow")
BASELINES = {  # TF-IDF and k-means of scikit-learn, given the number of intents, by intent
    "clinc150": (0.29, 0.71),
    "banking77": (0.18, 0.52),
    "stackoverflow": (0.22, 0.55),
}
MILLION = 1_000_000
WEEK, GAP = 5_000, 0.02


def run() -> list[tuple[str, str, str]]:
    folder = os.environ.get("RAGMON_TOPICS_DATA", "")
    weeks = int(sys.argv[1]) if sys.argv[1:] and sys.argv[1].isdigit() else 20
    sets = {name: Path(folder, f"{name}.tsv") for name in SETS}
    known = {name: load(path) for name, path in sets.items() if folder and path.exists()}
    rows = [row for name, questions in known.items() for row in quality(name, *questions)]
    rows += [row for name, questions in known.items() for row in by_vectors(name, *questions)]
    if "clinc150" in known:
        rows += gaps(*known["clinc150"], weeks)
    return [*rows, *cost([text for _, texts in known.values() for text in texts])]


def load(path: Path) -> tuple[list[str], list[str]]:
    """Intents and questions."""
    pairs = [line.split("\t", 1) for line in path.read_text(encoding="utf-8").splitlines()]
    return [intent for intent, _ in pairs], [text for _, text in pairs]


def quality(name, intents, texts):
    chosen = random.Random(0).sample(range(len(texts)), min(16_000, len(texts)))
    truth = np.unique([intents[at] for at in chosen], return_inverse=True)[1]
    questions = TermReader().read([texts[at] for at in chosen])
    model, labels = fit(questions, SEED)
    first = np.random.default_rng(1).random(len(labels)) < 0.5
    one, other = (
        fit(questions.select(np.flatnonzero(half)), SEED)[0].nearest(questions)
        for half in (first, ~first)
    )
    is_clear = one.is_clear & other.is_clear
    stable = rand_index(one.labels[is_clear], other.labels[is_clear])
    every = rand_index(kept(one), kept(other))
    ari, nmi = BASELINES[name]
    what = f"{name}: {len(texts):,} questions, {len(set(intents))} intents"
    agreed = f"ARI {rand_index(truth, labels):.2f}, NMI {mutual_information(truth, labels):.2f}"
    return [
        (what, f"{agreed}; {model.topics} topics", f"ARI {ari}, NMI {nmi} (k-means told K)"),
        (
            f"{name}: two halves without a question in common",
            f"ARI {stable:.2f} of the {is_clear.mean():.0%} clear by both, {every:.2f} of all",
            "0.8",
        ),
    ]


def gaps(intents, texts, weeks):
    """Weeks of traffic with and without a part of which half is missed."""
    by_intent = {}
    for intent, text in zip(intents, texts, strict=True):
        by_intent.setdefault(intent, []).append(text)
    found = false = 0
    for week in range(weeks):
        chance = random.Random(week)
        gap = chance.choice(sorted(by_intent))
        asked = [
            gap if chance.random() < GAP else chance.choice(sorted(by_intent)) for _ in range(WEEK)
        ]
        queries = [chance.choice(by_intent[intent]) for intent in asked]
        grouping = topics_of(queries)
        for is_planted in (True, False):
            rates = [0.5 if is_planted and intent == gap else 0.9 for intent in asked]
            hits = np.array([float(chance.random() < rate) for rate in rates])
            listed = report(grouping, hits)
            flagged = [topic for topic in listed.topics[:3] if topic.is_gap]
            if not is_planted:
                false += any(topic.is_gap for topic in listed.topics)
                continue
            within = [
                set(topic.words) & set(" ".join(by_intent[gap]).lower().split())
                for topic in flagged
            ]
            found += any(len(words) >= 2 for words in within)
    return [
        (f"a gap of 2 % is among the first three, {weeks} weeks", f"{found / weeks:.0%}", "95 %"),
        (f"a week without a gap reports one, {weeks} weeks", f"{false / weeks:.0%}", "at most 5 %"),
    ]


def topics_of(queries, sketches=None):
    builder = CorpusBuilder()
    builder.add(list(range(len(queries))), queries, None, sketches)
    return group(builder.corpus(), builder.texts, KeptModel(made_at=0.0), 1.0)


def by_vectors(name, intents, texts):
    """Topics by vectors: latent semantic analysis of characters stands in for a model."""
    chosen = random.Random(0).sample(range(len(texts)), min(8_000, len(texts)))
    texts = [texts[at] for at in chosen]
    truth = np.unique([intents[at] for at in chosen], return_inverse=True)[1]
    sketches = {at: sketch(vector) for at, vector in enumerate(latent(texts).tolist())}
    sketches = {at: one for at, one in sketches.items() if one}
    rows = []
    for what, given in (
        ("words", {}),
        ("vectors", sketches),
        ("six in ten have a vector", {at: one for at, one in sketches.items() if at % 5 < 3}),
    ):
        labels = np.frombuffer(topics_of(texts, given).grouped.labels, dtype=np.int32)
        agreed = f"ARI {rand_index(truth, labels):.2f}, NMI {mutual_information(truth, labels):.2f}"
        rows.append((f"{name}, {len(texts):,} questions: {what}", agreed, "words"))
    return rows


def latent(texts, dimensions=300):
    """Latent semantic analysis of three to five characters."""
    numbers, rows, columns = {}, [], []
    for row, text in enumerate(texts):
        held = {
            f" {text.lower()} "[at : at + n] for n in (3, 4, 5) for at in range(len(text) + 3 - n)
        }
        rows += [row] * len(held)
        columns += [numbers.setdefault(gram, len(numbers)) for gram in sorted(held)]
    held_by = np.bincount(columns)
    kept = held_by[columns] >= 3
    rows, columns = np.array(rows)[kept], np.array(columns)[kept]
    weights = 1.0 + np.log(len(texts) / held_by[columns])
    weights /= np.sqrt(np.bincount(rows, weights**2, len(texts)))[rows]
    matrix = csr_matrix((weights, (rows, columns)), (len(texts), len(numbers)))
    left, sizes, _ = svds(matrix, k=dimensions, random_state=0)
    return left * sizes


def report(grouping, hits):
    times = np.arange(float(len(hits)))
    read = QueriesRead(0.0, float(len(hits)), times, {"hit_rate": hits}, 1.0)
    return topic_list(grouping.grouped, read, {})


def cost(texts):
    """CPU and memory of a million questions, most of them distinct."""
    chance = random.Random(0)
    texts = texts or [f"question {at} about {at % 70}" for at in range(20_000)]
    words = " ".join(texts).split()
    builder, used_s = CorpusBuilder(), 0.0
    for first in range(0, MILLION, 1_000):
        batch = [varied(chance, texts, words) for _ in range(1_000)]
        started = time.process_time()
        builder.add(list(range(first, first + 1_000)), batch)
        used_s += time.process_time() - started
    started = time.process_time()
    group(builder.corpus(), builder.texts, KeptModel(made_at=0.0), 1.0)
    used_s += time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [("a million questions", f"{used_s:.0f} s of a core, {peak:.0f} MB", "300 s, 600 MB")]


def varied(chance, texts, words):
    """A question with up to three more words."""
    question = chance.choice(texts).split()
    for _ in range(chance.randint(1, 3) if chance.random() < 0.8 else 0):
        question.insert(chance.randrange(len(question) + 1), chance.choice(words))
    return " ".join(question)


def table(one, other):
    """Counts of two labellings, also where a label is -1."""
    rows, columns = (np.unique(labels, return_inverse=True)[1] for labels in (one, other))
    width = columns.max() + 1
    return np.bincount(rows * width + columns, minlength=(rows.max() + 1) * width).reshape(
        -1, width
    )


def rand_index(one, other) -> float:
    """Adjusted for chance. Source: Hubert and Arabie (1985)."""
    counts = table(one, other).astype(float)

    def pairs(n):
        return (n * (n - 1) / 2).sum()

    rows, columns, every = pairs(counts.sum(1)), pairs(counts.sum(0)), pairs(counts.sum())
    expected = rows * columns / every
    return float((pairs(counts) - expected) / ((rows + columns) / 2 - expected))


def mutual_information(one, other) -> float:
    """Normalised by the mean of both entropies."""
    shares = table(one, other) / len(one)
    rows, columns = shares.sum(1), shares.sum(0)
    at = shares > 0
    shared = (shares[at] * np.log(shares[at] / np.outer(rows, columns)[at])).sum()
    entropies = [-(part[part > 0] * np.log(part[part > 0])).sum() for part in (rows, columns)]
    return float(shared / (sum(entropies) / 2))


if __name__ == "__main__":
    for row in run():
        print(" | ".join(row))
