"""What drives a wave from inside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hamfem.physics.data import Amplitude
from hamfem.physics.data import amplitude as as_amplitude


@dataclass(frozen=True, init=False, eq=False)
class Source:
    """f(x, t) = amplitude(t) x shape(x), a force per volume.

    Attributes:
        shape: A number, a vector of numbers, a callable x -> array, or a UFL expression.
        amplitude: A number, a function of t, or a sympy expression in t.
    """

    shape: Any
    amplitude: Amplitude

    def __init__(self, shape: Any, amplitude: Any = 1.0) -> None:
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "amplitude", as_amplitude(amplitude))
