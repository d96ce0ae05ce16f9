"""What a method can do: polynomial degrees and cells, as users give them."""

from __future__ import annotations

import numpy as np

from hamfem.physics.wave import Wave


def checked_degree(degree: int, smallest: int = 0, what: str = "discontinuous elements") -> int:
    """The degree, if it is one."""
    if isinstance(degree, bool) or not isinstance(degree, int | np.integer) or degree < smallest:
        raise ValueError(f"{what} have a degree of at least {smallest}: {degree!r} is not one.")
    return int(degree)


def check_simplices(wave: Wave, method: str) -> None:
    """Refuse other cells than triangles and tetrahedra."""
    if wave.domain.cell not in ("interval", "triangle", "tetrahedron"):
        raise ValueError(
            f"{method} of vector waves needs triangles or tetrahedra and the mesh has "
            f"{wave.domain.cell} cells: take hf.cg, or another mesh."
        )
