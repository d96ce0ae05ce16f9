"""Exact solutions and initial data, shared by tests, demos and benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Field = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]


@dataclass(frozen=True)
class StandingWave:
    """A mode of the box (0, L_1) x ... x (0, L_d) of the scalar wave equation with speed c.

        u(x, t) = prod_i trig(m_i pi x_i / L_i) cos(omega t + phase),
        omega = c pi |(m_1 / L_1, ..., m_d / L_d)|,

    with trig = sin for clamped walls (u = 0) and trig = cos for free walls (du/dn = 0).
    """

    modes: Sequence[int] = (1, 1)
    lengths: Sequence[float] = (1.0, 1.0)
    speed: float = 1.0
    phase: float = 0.3
    walls: str = "clamped"

    def __post_init__(self) -> None:
        if len(self.modes) != len(self.lengths):
            raise ValueError(f"{len(self.modes)} modes do not fit {len(self.lengths)} lengths.")
        if self.walls not in ("clamped", "free"):
            raise ValueError(f"walls are 'clamped' or 'free', not '{self.walls}'.")

    @property
    def frequency(self) -> float:
        """The angular frequency omega."""
        return self.speed * np.pi * float(np.linalg.norm(np.divide(self.modes, self.lengths)))

    def shape(self, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The mode at the points x, an array of shape (3, number of points)."""
        trig = np.sin if self.walls == "clamped" else np.cos
        factors = [
            trig(m * np.pi * x[i] / L) for i, (m, L) in enumerate(zip(self.modes, self.lengths))
        ]
        return np.prod(factors, axis=0)

    def u(self, t: float) -> Field:
        """The displacement at time t."""
        return lambda x: self.shape(x) * np.cos(self.frequency * t + self.phase)

    def v(self, t: float) -> Field:
        """The velocity at time t."""
        return lambda x: -self.frequency * self.shape(x) * np.sin(self.frequency * t + self.phase)


@dataclass(frozen=True)
class LameMode:
    """Lamé's mode of a square (0, L)^2 without traction, in 3D the same at every z.

        u(x, t) = (cos(a x) sin(a y), -sin(a x) cos(a y)) cos(omega t + phase),
        a = pi / L,   omega = a sqrt(2 mu / rho).

    It is pure shear without change of volume: all walls are free of traction for every lam.
    """

    dim: int = 2
    length: float = 1.0
    mu: float = 1.0
    density: float = 1.0
    phase: float = 0.3

    @property
    def frequency(self) -> float:
        """The angular frequency omega."""
        return float(np.pi / self.length * np.sqrt(2 * self.mu / self.density))

    def shape(self, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The mode at the points x, an array of shape (3, number of points)."""
        a = np.pi / self.length
        result = np.zeros((self.dim, x.shape[1]))
        result[0] = np.cos(a * x[0]) * np.sin(a * x[1])
        result[1] = -np.sin(a * x[0]) * np.cos(a * x[1])
        return result

    def u(self, t: float) -> Field:
        """The displacement at time t."""
        return lambda x: self.shape(x) * np.cos(self.frequency * t + self.phase)

    def v(self, t: float) -> Field:
        """The velocity at time t."""
        return lambda x: -self.frequency * self.shape(x) * np.sin(self.frequency * t + self.phase)

    def stress(self, t: float) -> Field:
        """The stress, row by row, at time t: sigma_11 = -sigma_22, all else 0."""
        a = np.pi / self.length

        def field(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
            s = -2 * self.mu * a * np.sin(a * x[0]) * np.sin(a * x[1])
            result = np.zeros((self.dim**2, x.shape[1]))
            result[0], result[self.dim + 1] = s, -s
            return result * np.cos(self.frequency * t + self.phase)

        return field


def bump(center: Sequence[float], width: float) -> Field:
    """The Gaussian exp(-|x - center|^2 / (2 width^2))."""
    if width <= 0:
        raise ValueError(f"the width of a bump must be positive and is {width}.")
    c = np.asarray(center, float)

    def field(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.exp(-np.sum((x[: len(c)] - c[:, None]) ** 2, axis=0) / (2 * width**2))

    return field
