"""The e-detector: its bets are fair, it fires, forgets and recovers as promised."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmon.detectors.arrays import pack
from ragmon.detectors.core import (
    BELIEF,
    CALM_CAP,
    CAP,
    SHIFTS,
    Charts,
    capped,
    coefficients,
    gains,
    mixture,
)

KNOWN = 43_200.0


def weights(u0, *, variance=0.0, binary=True, phi=1.0, streams=1):
    one = np.ones(streams)
    return coefficients(u0 * one, variance * one, np.full(streams, binary), phi * one)


def charts(streams=1):
    found = Charts()
    found.grow(streams)
    return found


def minute(n, lost, streams=1):
    return np.tile([float(n), float(lost), float(lost)], (streams, 1))


def test_the_stakes_sum_to_one():
    assert BELIEF.sum() == pytest.approx(1.0)
    assert mixture(np.ones((3, 8))).tolist() == pytest.approx([1.0, 1.0, 1.0])


@given(
    u0=st.floats(0.001, 0.9),
    below=st.floats(0.0, 1.0),
    n=st.integers(1, 25),
    phi=st.floats(1.0, 9.0),
)
@settings(max_examples=60, deadline=None)
def test_a_bet_on_coins_is_not_favourable_while_the_loss_is_tolerated(u0, below, n, phi):
    lost = np.arange(n + 1)
    cells = np.stack([np.full(n + 1, float(n)), lost, lost], axis=1)
    p = u0 * below
    chance = np.array([math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in lost])
    gain = np.minimum(gains(cells, weights(u0, phi=phi, streams=n + 1)), CALM_CAP)
    assert (chance @ np.exp(gain) <= 1.0 + 1e-9).all()


@given(
    values=st.lists(st.floats(0.0, 8.0), min_size=2, max_size=6),
    scale=st.floats(1.0, 3.0),
    variance=st.floats(0.0, 5.0),
)
@settings(max_examples=60, deadline=None)
def test_a_bet_on_unbounded_losses_is_not_favourable_either(values, scale, variance):
    values = np.array(values)
    u0 = min(scale * values.mean(), 0.99)
    if values.mean() > u0 or u0 < 1e-4:
        return
    cells = np.stack([np.ones(len(values)), values, values**2], axis=1)
    bets = weights(u0, variance=variance, binary=False, streams=len(values))
    assert (np.exp(gains(cells, bets)).mean(axis=0) <= 1.0 + 1e-9).all()


@pytest.mark.parametrize(
    ("cells", "caps", "streams", "minutes"),
    [
        pytest.param((60, 60), CAP, 1, 3, id="under the cap three minutes in a row are needed"),
        pytest.param((60, 60), CAP, 100, 3, id="one of a hundred streams needs no more"),
        pytest.param((60, 60), CAP, 1_000, 3, id="nor one of a thousand"),
        pytest.param((6_000, 6_000), CALM_CAP, 1, 1, id="a stream without bursts needs one"),
        pytest.param((60, 6), CAP, 1, None, id="the tolerated loss never fires"),
        pytest.param((0, 0), CAP, 1, None, id="silence proves nothing"),
    ],
)
def test_when_it_fires(cells, caps, streams, minutes):
    chart, limit, fired = charts(), np.array([KNOWN * streams]), None
    most = capped(np.array([caps]), limit)
    for at in range(1, 61):
        if len(chart.watch(at, minute(*cells), weights(0.1), limit, most)):
            fired = at
            break
    assert fired == minutes


def test_silence_is_no_evidence():
    chart = charts()
    chart.watch(1, minute(60, 12), weights(0.1), np.array([KNOWN]), np.array([CAP]))
    before = chart.evidence.copy(), chart.cusum.copy(), chart.start.copy()
    chart.watch(2, minute(0, 0), weights(0.1), np.array([KNOWN]), np.array([CAP]))
    after = chart.evidence, chart.cusum, chart.start
    assert all(map(np.array_equal, before, after))
    assert chart.volume[0] < 3.0  # as for the traffic, silence is known


@pytest.mark.parametrize(
    ("bad_minutes", "fires"),
    [
        pytest.param([(300, 240)], True, id="failures in place of usual queries"),
        pytest.param([(540, 246)], False, id="a burst beside them"),
        pytest.param([(540, 246), (540, 246)], False, id="a burst over the end of a minute"),
        pytest.param([(540, 246), (300, 6), (540, 246), (300, 6), (540, 246)], False,
                     id="bursts that are not one outage"),
        pytest.param([(540, 246)] * 3, True, id="what goes on is no burst"),
    ],
)  # fmt: skip
def test_one_minute_suffices_where_no_burst_explains_it(bad_minutes, fires):
    chart, limit, caps = charts(), np.array([1_000 * KNOWN]), np.array([CAP])
    weigh = weights(0.03)
    rng = np.random.default_rng(1)
    for at in range(120):
        assert not len(chart.watch(at, minute(rng.poisson(300.0), 6), weigh, limit, caps))
    for at, cells in enumerate(bad_minutes, 120):
        chart.watch(at, minute(*cells), weigh, limit, caps)
    assert chart.open[0] == fires


def test_a_burst_in_a_stream_that_has_gone_silent_is_one():
    chart, limit, caps = charts(), np.array([1_000 * KNOWN]), np.array([CAP])
    for at in range(120):
        chart.watch(at, minute(300, 6), weights(0.03), limit, caps)
    for at in range(120, 240):
        chart.watch(at, minute(0, 0), weights(0.03), limit, caps)
    chart.watch(240, minute(200, 200), weights(0.03), limit, caps)
    assert not chart.open[0]


def test_the_change_point_is_where_the_evidence_began():
    rng, chart, found = np.random.default_rng(3), charts(200), []
    for at in range(400):
        lost = rng.binomial(60, 0.1 if at < 300 else 0.25, 200).astype(float)
        cells = np.stack([np.full(200, 60.0), lost, lost], axis=1)
        rows = chart.watch(
            at, cells, weights(0.1, streams=200), np.full(200, KNOWN), np.full(200, CAP)
        )
        found += chart.since[rows].tolist()
    assert len(found) > 190
    assert abs(np.median(found) - 300) <= 1
    assert np.mean(np.abs(np.array(found) - 300) <= 5) > 0.8


def test_recovery_takes_a_clear_answer_and_starts_anew():
    chart = charts()
    weigh, limits, caps = weights(0.1), np.array([KNOWN]), np.array([CAP])
    normal, tolerated, spread = np.array([0.08]), np.array([0.1]), np.ones(1)
    at = 0
    while not chart.open[0]:
        at += 1
        chart.watch(at, minute(60, 30), weigh, limits, caps)
    chart.seen[0] = (300.0, 150.0, 150.0)
    for _ in range(30):
        at += 1
        assert not len(chart.recover(at, minute(60, 30), normal, tolerated, spread))
    bad_until = at
    while chart.open[0]:
        at += 1
        chart.recover(at, minute(60, 5), normal, tolerated, spread)
    assert 2 <= at - bad_until <= 5
    assert chart.evidence.sum() == 0.0


@pytest.mark.parametrize(
    ("rate", "within"), [(17.0, 45), (3.3, 120), (1.0, 480)], ids=["busy", "rated", "quiet"]
)
def test_an_incident_that_is_over_ends_however_little_traffic_there_is(rate, within):
    # The mean since the change sinks with every good minute: measured against that alone, an
    # incident of a quiet stream with bursts never ended.
    rng, streams, bad_minutes = np.random.default_rng(5), 200, 40
    chart = charts(streams)
    normal, tolerated = np.full(streams, 0.32), np.full(streams, 0.36)
    chart.open[:] = True
    open_at = []
    for at in range(bad_minutes + within):
        n = rng.poisson(rate, streams).astype(float)
        lost = rng.binomial(n.astype(int), 0.9 if at < bad_minutes else 0.32).astype(float)
        chart.recover(at, np.stack([n, lost, lost], axis=1), normal, tolerated, np.full(streams, 4))
        open_at.append(chart.open.mean())
    assert open_at[bad_minutes - 1] == 1.0
    assert open_at[-1] <= 0.05


def test_an_incident_that_lasts_does_not_end():
    rng, streams = np.random.default_rng(6), 200
    chart = charts(streams)
    normal, tolerated = np.full(streams, 0.1), np.full(streams, 0.12)
    chart.open[:] = True
    for at in range(1_440):
        n = rng.poisson(5.0, streams)
        lost = rng.binomial(n, 0.2).astype(float)
        cells = np.stack([n.astype(float), lost, lost], axis=1)
        chart.recover(at, cells, normal, tolerated, np.ones(streams))
    assert chart.open.mean() > 0.5  # at most one wrong end a day, of each on its own


@pytest.mark.parametrize("missing", list(Charts._FIELDS))
def test_what_a_release_with_fewer_fields_saved_is_taken_on(missing):
    old, chart = charts(3), Charts()
    old.opened[:] = old.since[:] = (7, 8, 9)
    chart.load(pack({name: getattr(old, name) for name in Charts._FIELDS if name != missing}))
    assert {len(getattr(chart, name)) for name in Charts._FIELDS} == {3}
    assert [7, 8, 9] in (chart.opened.tolist(), chart.since.tolist())


def test_shifts_double():
    assert SHIFTS[0] == 0.005
    assert np.allclose(SHIFTS[1:] / SHIFTS[:-1], 2.0)


@pytest.mark.parametrize("order", ["C", "F"])
def test_evidence_is_the_same_however_it_lies_in_memory(order):
    rng = np.random.default_rng(5)
    evidence = np.asarray(rng.lognormal(0.0, 9.0, (400, 8)), order=order)
    one_by_one = [mixture(row[None])[0] for row in np.ascontiguousarray(evidence)]
    assert mixture(evidence).tolist() == one_by_one
    assert mixture(evidence).tolist() == (np.ascontiguousarray(evidence) * BELIEF).sum(1).tolist()


def test_known_gains_give_the_same_evidence_and_are_left_as_they_are():
    rng = np.random.default_rng(6)
    one, other = charts(50), charts(50)
    against = weights(0.05, streams=50)
    limits, caps = np.full(50, KNOWN), np.full(50, CAP)
    for at in range(60):
        n = rng.poisson(60, 50) * (rng.random(50) < 0.8)
        lost = rng.binomial(n, 0.3 if at % 20 > 15 else 0.05)
        cells = np.stack([n, lost, lost], axis=1).astype(float)
        known = gains(cells, against)
        before = known.copy()
        fired = one.watch(at, cells, against, limits, caps)
        assert fired.tolist() == other.watch(at, cells, against, limits, caps, gain=known).tolist()
        assert known.tolist() == before.tolist()
    assert one.open.any()
    assert one.dump() == other.dump()


def test_what_lies_by_part_is_saved_as_ever_and_stays_so():
    found = charts(3)
    found.evidence[:] = np.arange(24.0).reshape(3, 8)
    again = Charts()
    again.load(found.dump())
    again.grow(5)
    again.keep(np.array([True, False, True, True, False]))
    assert again.evidence.tolist() == [[*range(8)], [*range(16, 24)], [0.0] * 8]
    assert again.evidence.flags.f_contiguous
    assert found.dump().count(np.arange(24.0).tobytes()) == 1
