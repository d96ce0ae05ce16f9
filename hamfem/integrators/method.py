"""What a time-marcher offers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from hamfem.state import State
from hamfem.system import FirstOrder, SecondOrder

System: TypeAlias = SecondOrder | FirstOrder
# advance(state, n): n steps, with everything factorised and allocated before
Advance = Callable[[State, int], None]


class Method(Protocol):
    """A frozen description of an integrator; `bind` makes it ready to run."""

    @property
    def order(self) -> Any:
        """The order on linear systems, forced too."""

    @property
    def symplectic(self) -> Any:
        """Whether a step is a symplectic (Poisson) map."""

    @property
    def negative_steps(self) -> Any:
        """Whether a substep goes back in time, which damped systems do not survive."""

    def stable_dt(self, system: System) -> float:
        """The largest stable time step, or infinity."""

    def bind(self, system: System, dt: float) -> Advance:
        """A function that advances a state by n steps."""
