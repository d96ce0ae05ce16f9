"""Points that a user gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def text(point: Any) -> str:
    """The coordinates of a point for the eye, all digits of them."""
    return f"({', '.join(f'{x:.16g}' for x in point)})"


def refuse_lost(points: Array, lost: npt.NDArray[Any], place: str) -> None:
    """Say which points are not in the mesh or the box; `lost` has their numbers."""
    if len(lost):
        more = f", and so do {len(lost) - 1} more" if len(lost) > 1 else ""
        raise ValueError(
            f"the point {text(points[lost[0]])} lies outside of the {place}{more}: move it inside."
        )


def checked_points(points: Any, dim: int) -> Array:
    """The points as an array, (points, dim)."""
    try:
        x = np.array(points, float)
    except (TypeError, ValueError):
        raise ValueError(
            f"the points must be numbers, {dim} coordinates for each point: change them."
        ) from None
    if x.ndim == 1 and dim == 1:
        x = x[:, None]
    if x.size == 0:
        raise ValueError("there are no points: name at least one.")
    if x.ndim != 2 or x.shape[1] != dim:
        raise ValueError(
            f"the points have the shape {x.shape}: each of them must have {dim} coordinates, as "
            f"the domain has {dim} dimension{'s' if dim > 1 else ''}."
        )
    for point in x:
        if not np.isfinite(point).all():
            raise ValueError(f"the point {text(point)} is nowhere: give finite coordinates.")
    return x
