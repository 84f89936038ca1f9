"""ragmon: a production monitoring agent for RAG systems.

One record's way, station by station (deploy/docs/architecture.md has the picture):

    sources/     http, jsonl and otlp take batches in; ``decode`` validates one record a line
    daemon/      ``ingest/writer`` groups what waits, ``ingest/committer`` makes it one commit
    pipeline     says what a record adds, without I/O and without a clock
    signals/     one file a metric: a record in, a number or unknown out
    stores/      one transaction, one fsync; acknowledged is durable
    windows/     buckets of sums and histograms; any window is a merge of buckets
    exposition/  estimates with intervals as Prometheus text; ``report`` says the same as JSON

What a commit adds also goes on to

    detectors/   each minute: is a metric worse than its past, its baseline, its other version?
    alerts/      from findings to alerts: state, silences, causes before symptoms, words
    sinks/       one receiver a file; ``daemon/notify`` delivers in order, across restarts

and answers are read by

    judges/      ``grounding`` without a model, all of them; ``llm`` a sample, within a budget;
                 their verdicts come back through the writer and restate the windows

Around it: ``cli`` the commands, ``config`` the settings, ``web`` what is asked over HTTP,
``queries`` what is found in the store, ``backtest`` the detectors over past queries, ``evaluate``
the same metrics over a golden set, ``client`` the library for applications, ``demo`` a small real
application to watch, ``backups`` the copies of the store, ``s3`` the client of object stores for
them and for bodies, ``stats`` the intervals and tests,
``topics`` what people ask, ``documents`` which of them are to blame,
``judge_reports`` how far judges agree with people, ``privacy`` the redaction,
``charts`` the SVG. Imports go down only, from ``cli`` to ``records``, ``errors`` and ``clock``.
"""

__version__ = "0.1.0"

# A wheel keeps its client here, since the path ragmon/client belongs to ragmon-client, which may
# be installed beside it and is then the one imported (deploy/decisions/0019).
__path__.append(f"{__path__[0]}/_bundled")
