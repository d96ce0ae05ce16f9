"""What a time-marcher offers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hamfem.flow import NODES, WEIGHTS
from hamfem.state import State
from hamfem.system import FirstOrder, SecondOrder

System: TypeAlias = SecondOrder | FirstOrder
# advance(state, n): n steps, with everything factorised and allocated before
Advance = Callable[[State, int], None]
Quadrature = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]


class Method(ABC):
    """A frozen description of an integrator; `bind` makes it ready to run.

    Attributes:
        name: What it is called.
        order: The order on linear systems, forced too.
        symplectic: Whether a step is a symplectic (Poisson) map.
        negative_steps: Whether a substep goes back in time, which damped systems do not survive.
        limit: The largest stable omega dt, or infinity.
    """

    name: Any
    order: Any
    symplectic: Any
    negative_steps: Any
    limit: Any

    @abstractmethod
    def bind(self, system: System, dt: float) -> Advance:
        """A function that advances a state by n steps."""

    def quadrature(self, half: str, integrable: bool = False) -> Quadrature:
        """The nodes c_j and weights w_j with which a step sums a load up.

        Where nothing else acts, x += dt sum_j w_j load(t + c_j dt): so charges are balanced to
        round-off. By default the integral itself, for methods that sum in no such way.

        Args:
            half: "v" or "q", on which the load is.
            integrable: Whether it has its antiderivative.
        """
        return NODES, WEIGHTS

    def stable_dt(self, system: System) -> float:
        """The largest stable time step: the limit of omega dt over the largest frequency."""
        if math.isinf(self.limit):
            return math.inf
        omega = system.max_frequency()
        return self.limit / omega if omega > 0 else math.inf
