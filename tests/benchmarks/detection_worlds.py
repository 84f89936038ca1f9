"""Synthetic traffic for the detectors: minutes of (n, lost), over many independent runs at once."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

DAY = 1_440
MONDAY = 20_087 * DAY  # unix minutes, a Monday at midnight


@dataclass(frozen=True)
class World:
    """How traffic behaves; levels are mean losses."""

    level: float = 0.1
    season: float = 0.0  # half the swing of the level over a day
    weekend: float = 0.0  # added to the level on Saturday and Sunday
    drift: float = 0.0  # half the swing of the level over sixty days, as the mix of queries moves
    day_effect: float = 0.0  # standard deviation of a day's own level
    noise: float = 0.0  # standard deviation of AR(1) noise of the level, over 20 minutes
    storms: float = 0.0  # retry storms a day
    storm_size: float = 20.0  # mean failing retries in one
    together: bool = False  # a storm hits every run at once
    night: float = 0.0  # share of the traffic that goes away at night


STEADY = World()
REALISTIC = World(season=0.025, weekend=-0.01, day_effect=0.004, noise=0.01, night=0.6)
STORMY = World(season=0.025, weekend=-0.01, day_effect=0.004, noise=0.01, night=0.6, storms=4.0)

NETWORK_MINUTES = World(
    season=0.025, weekend=-0.01, day_effect=0.004, noise=0.01, night=0.6, storms=4.0, together=True
)


class Traffic:
    """Runs of a world, minute by minute."""

    def __init__(self, world: World, rates_qps: np.ndarray, seed: int) -> None:
        self.world = world
        self.rates = 60.0 * rates_qps
        self.rng = np.random.default_rng(seed)
        self.runs = len(rates_qps)
        self._noise = np.zeros(self.runs)
        self._day = np.zeros(self.runs)

    def minute(self, minute: int, shift: np.ndarray | float = 0.0) -> np.ndarray:
        """Cells (runs, 3) of one minute; ``shift`` is added to the level."""
        return self.draw(minute, self.level(minute) + shift)

    def level(self, minute: int) -> np.ndarray:
        """The true mean loss of each run in a minute; call it once for every minute."""
        world, rng = self.world, self.rng
        if minute % DAY == 0:
            self._day = rng.normal(0.0, world.day_effect, self.runs)
        keep = np.exp(-1.0 / 20.0)
        fresh = rng.normal(0.0, world.noise, self.runs)
        self._noise = keep * self._noise + np.sqrt(1 - keep**2) * fresh
        season = world.season * np.sin(_phase(minute))
        season += world.drift * np.sin(2.0 * np.pi * (minute - MONDAY) / (60 * DAY))
        return world.level + season + _weekend(minute) * world.weekend + self._day + self._noise

    def draw(self, minute: int, level: np.ndarray, share: float = 1.0) -> np.ndarray:
        """Queries of a share of the traffic, at a level; cells (runs, 3)."""
        world, rng = self.world, self.rng
        volume = 1.0 - world.night * (0.5 + 0.5 * np.cos(_phase(minute)))
        volume -= 0.3 * (world.night > 0) * _weekend(minute)
        n = rng.poisson(self.rates * share * max(volume, 0.05))
        lost = rng.binomial(n, np.clip(level, 0.0005, 0.9995))
        if world.storms:
            hit = rng.random(1 if world.together else self.runs) < share * world.storms / DAY
            retries = hit * rng.geometric(1.0 / world.storm_size, self.runs)
            n, lost = n + retries, lost + retries
        return np.stack([n, lost, lost], axis=1).astype(np.float64)

    def month(self, minutes: int, first: int = MONDAY) -> Iterator[tuple[int, np.ndarray]]:
        """Some minutes in a row."""
        for minute in range(first, first + minutes):
            yield minute, self.minute(minute)


def _phase(minute: int) -> float:
    return 2.0 * np.pi * (minute % DAY) / DAY


def _weekend(minute: int) -> bool:
    return (minute - MONDAY) // DAY % 7 >= 5
