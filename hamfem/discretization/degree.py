"""Polynomial degrees, as users give them."""

from __future__ import annotations

import numpy as np


def checked_degree(degree: int, smallest: int = 0, what: str = "discontinuous elements") -> int:
    """The degree, if it is one."""
    if isinstance(degree, bool) or not isinstance(degree, int | np.integer) or degree < smallest:
        raise ValueError(f"{what} have a degree of at least {smallest}: {degree!r} is not one.")
    return int(degree)
