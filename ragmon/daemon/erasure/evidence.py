"""Erasure from alerts: the worst queries in their evidence hold questions and error texts."""

import msgspec
from msgspec.structs import replace

from ragmon.alerts import Alert, AlertEvent
from ragmon.alerts.machine import AlertBook
from ragmon.alerts.notices import IncidentNotice
from ragmon.daemon.alerting.loop import Alerting
from ragmon.daemon.ingest.engine import Engine
from ragmon.daemon.ingest.identities import stored_id
from ragmon.daemon.ingest.lookup import stored_query
from ragmon.loops import beat
from ragmon.privacy.erasure import is_erased
from ragmon.stores import Reader

_STEP = 200  # rows

_event = msgspec.msgpack.Decoder(AlertEvent)
_notice = msgspec.msgpack.Decoder(IncidentNotice)
_encode = msgspec.msgpack.Encoder().encode


class EvidenceEraser:
    """Removes what alerts quote of queries that are erased, or no longer stored.

    Whose question it was, only the stored query tells. So where that is gone, the quotation goes
    as well.
    """

    def __init__(self, engine: Engine, alerting: Alerting) -> None:
        self._engine = engine
        self._alerting = alerting
        self._erasure = engine.state.erasure()

    def erase(self) -> int:
        """Erase from stored transitions, notifications and the open alerts; returns how many."""
        known: dict[str, bool] = {}  # whether it is gone, by query id
        with self._engine.store.reader() as reader:
            erased = self._erase_rows(reader, known)
            self._look_up(reader, self._alerting.book, known)
        self._engine.thread.ask(lambda: self._erase_book(known))
        return erased

    def _erase_rows(self, reader: Reader, known: dict[str, bool]) -> int:
        ask, place, erased = self._engine.thread.ask, (0, -1), 0
        while rows := ask(lambda: self._erasure.alert_rows(place, _STEP)):  # noqa: B023 - asked at once
            place = rows[-1].place
            beat()
            changed = []
            for row in rows:
                event = (_notice if row.is_notice else _event).decode(row.event)
                self._look_up_alert(reader, event.alert, known)
                clean = without_quotes(event.alert, known)
                if clean is not event.alert:
                    changed.append(row._replace(event=_encode(replace(event, alert=clean))))
            if changed:
                ask(lambda: self._erasure.update_alerts(changed))  # noqa: B023 - as above
            erased += len(changed)
        return erased

    def _erase_book(self, known: dict[str, bool]) -> None:
        """Erase from the alerts in memory and as saved; on the writer's thread."""
        self._alerting.change_alerts(lambda alert: without_quotes(alert, known))
        body = self._erasure.book()
        if body is not None:
            book = AlertBook.load(body).changed(lambda alert: without_quotes(alert, known))
            self._erasure.update_book(book.dump())

    def _look_up(self, reader: Reader, book: AlertBook, known: dict[str, bool]) -> None:
        for alert in (*book.open, *book.recent):
            self._look_up_alert(reader, alert, known)

    def _look_up_alert(self, reader: Reader, alert: Alert, known: dict[str, bool]) -> None:
        for query in alert.evidence.worst if alert.evidence else ():
            if query.query_id not in known:
                known[query.query_id] = self._is_gone(reader, query.query_id)

    def _is_gone(self, reader: Reader, query_id: str) -> bool:
        """True for a query that is erased or not stored."""
        row = stored_query(self._engine, reader, query_id)
        return row is None or is_erased(stored_id(row[0]))


def without_quotes(alert: Alert, gone: dict[str, bool]) -> Alert:
    """The alert without the texts and ids of queries that are gone; itself where it has none."""
    if alert.evidence is None:
        return alert
    worst = tuple(query for query in alert.evidence.worst if not gone.get(query.query_id))
    if len(worst) == len(alert.evidence.worst):
        return alert
    return replace(alert, evidence=replace(alert.evidence, worst=worst))
