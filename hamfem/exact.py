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


@dataclass(frozen=True)
class CavityMode:
    """A mode of a box (0, L_1) x ... x (0, L_d) of vacuum or a dielectric with conducting walls.

    3D, with E along the first axis, the same at every x, and modes m, n across:

        E = (sin(m pi y / L_2) sin(n pi z / L_3), 0, 0) sin(omega t + phase) omega,

    2D: "TM" with E_z = sin(m pi x / L_1) sin(n pi y / L_2) likewise, or "TE" with H_z = cos cos.
    B = curl A with dA/dt = -E; all walls are perfect conductors.
    """

    dim: int = 3
    polarization: str | None = None
    modes: tuple[int, int] = (1, 1)
    lengths: Sequence[float] = (1.0, 1.0, 1.0)
    permittivity: float = 1.0
    permeability: float = 1.0
    phase: float = 0.3

    @property
    def _numbers(self) -> tuple[float, float]:
        """The wave numbers across."""
        lengths = self.lengths[1:3] if self.dim == 3 else self.lengths[:2]
        return np.pi * self.modes[0] / lengths[0], np.pi * self.modes[1] / lengths[1]

    @property
    def frequency(self) -> float:
        """The angular frequency omega."""
        speed = 1 / np.sqrt(self.permittivity * self.permeability)
        return float(speed * np.hypot(*self._numbers))

    def shape(self, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """A at phase 0, at the points x of shape (3, number of points)."""
        a, b = self._numbers
        if self.dim == 3:
            s = np.sin(a * x[1]) * np.sin(b * x[2])
            return np.stack([s, 0 * s, 0 * s])
        if self.polarization == "TM":
            return np.sin(a * x[0]) * np.sin(b * x[1])
        return np.stack(
            [
                b * np.cos(a * x[0]) * np.sin(b * x[1]),
                -a * np.sin(a * x[0]) * np.cos(b * x[1]),
            ]
        )

    def curl(self, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The curl of the shape."""
        a, b = self._numbers
        if self.dim == 3:
            return np.stack(
                [
                    0 * x[0],
                    b * np.sin(a * x[1]) * np.cos(b * x[2]),
                    -a * np.cos(a * x[1]) * np.sin(b * x[2]),
                ]
            )
        if self.polarization == "TM":
            return np.stack(
                [
                    b * np.sin(a * x[0]) * np.cos(b * x[1]),
                    -a * np.cos(a * x[0]) * np.sin(b * x[1]),
                ]
            )
        return -(a**2 + b**2) * np.cos(a * x[0]) * np.cos(b * x[1])

    def A(self, t: float) -> Field:
        """The potential at time t."""
        return lambda x: self.shape(x) * np.cos(self.frequency * t + self.phase)

    def E(self, t: float) -> Field:
        """The electric field at time t."""
        return lambda x: self.frequency * self.shape(x) * np.sin(self.frequency * t + self.phase)

    def B(self, t: float) -> Field:
        """The magnetic flux density at time t."""
        return lambda x: self.curl(x) * np.cos(self.frequency * t + self.phase)

    def H(self, t: float) -> Field:
        """The magnetic field at time t."""
        return lambda x: (
            self.curl(x) * (np.cos(self.frequency * t + self.phase) / self.permeability)
        )


def bump(center: Sequence[float], width: float) -> Field:
    """The Gaussian exp(-|x - center|^2 / (2 width^2))."""
    if width <= 0:
        raise ValueError(f"the width of a bump must be positive and is {width}.")
    c = np.asarray(center, float)

    def field(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.exp(-np.sum((x[: len(c)] - c[:, None]) ** 2, axis=0) / (2 * width**2))

    return field
