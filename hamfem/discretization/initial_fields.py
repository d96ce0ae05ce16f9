"""The fields E, B, H and A that a user starts with, at points of cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hamfem.discretization.geometry import Cells, Points
from hamfem.discretization.sampling import sample, weighted
from hamfem.discretization.start import INTERPOLATION, Data, is_zero
from hamfem.domain import Domain
from hamfem.physics.maxwell import Maxwell

Array = npt.NDArray[Any]
Values = Callable[[Cells, Points], Array]


@dataclass(frozen=True)
class _Shape:
    """What values of a field look like; `sample` asks for no more of a wave."""

    domain: Domain
    shape: tuple[int, ...]

    @property
    def components(self) -> int:
        return int(np.prod(self.shape))

    @property
    def scalar(self) -> bool:
        return self.shape == ()


class InitialFields:
    """E and one of B, H and A; what is not given is 0.

    Args:
        wave: The physics.
        degree: Of the method.
        E: The electric field.
        B: The magnetic flux density.
        H: The magnetic field, B / mu.
        A: The potential, B = curl A.
    """

    def __init__(
        self, wave: Maxwell, degree: int, E: Any = 0, B: Any = None, H: Any = None, A: Any = None
    ) -> None:
        given = [name for name, f in (("B", B), ("H", H), ("A", A)) if f is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} say the same of the start: give one of them.")
        self.wave, self.degree = wave, degree
        self.given_E, self.given_B, self.given_H, self.A = E, B, H, A
        self._potential = None if A is None else Data(wave, A, degree + INTERPOLATION)
        fluxes = len(wave.symbol)
        self._electric = _Shape(wave.domain, wave.shape)
        self._magnetic = _Shape(wave.domain, () if fluxes == 1 else (fluxes,))

    @property
    def without_E(self) -> bool:
        """Whether E is 0."""
        return is_zero(self.given_E)

    @property
    def without_B(self) -> bool:
        """Whether B is 0."""
        return all(f is None or is_zero(f) for f in (self.given_B, self.given_H, self.A))

    def E(self, cells: Cells, points: Points) -> Array:
        """E at the points, (cells, points, components), like the others."""
        return sample(self.given_E, self._electric, cells.cells, points, "the initial E")

    def D(self, cells: Cells, points: Points) -> Array:
        """Eps E."""
        return weighted(self.wave.eps, cells, points, self.E(cells, points))

    def B(self, cells: Cells, points: Points) -> Array:
        """B, as given or made."""
        if self.given_B is not None:
            return sample(self.given_B, self._magnetic, cells.cells, points, "the initial B")
        if self._potential is not None:
            return self._potential.strain(cells, points)
        if self.given_H is None:
            return np.zeros((*points.x.shape[:2], len(self.wave.symbol)))
        return weighted(self.wave.mu, cells, points, self.H(cells, points))

    def H(self, cells: Cells, points: Points) -> Array:
        """B / mu."""
        if self.given_H is not None:
            return sample(self.given_H, self._magnetic, cells.cells, points, "the initial H")
        return weighted(self.wave.C, cells, points, self.B(cells, points))
