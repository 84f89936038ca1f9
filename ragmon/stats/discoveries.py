"""False-discovery rates: of everything that is named, the share that is named by chance."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

FALSE_DISCOVERIES = 0.05
"""Share of what is named that may be named by chance."""


def false_discovery_rates(p_values: ArrayLike) -> NDArray[np.float64]:
    """The least false-discovery rate at which each of many tests is a finding.

    Args:
        p_values: shape (n,); NaN where nothing was tested, which counts as no test.

    Returns:
        Adjusted p-values; NaN where nothing was tested.

    Source: Benjamini and Hochberg (1995), JRSS B 57:289-300. It holds for independent tests and
    for those that rise and fall together (Benjamini and Yekutieli 2001).
    """
    values = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(values.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(values))
    order = tested[np.argsort(values[tested], kind="stable")]
    scaled = values[order] * len(order) / np.arange(1, len(order) + 1)
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return adjusted
