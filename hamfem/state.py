"""A point of phase space and its clock."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from petsc4py import PETSc


class Clock(NamedTuple):
    """t = origin + (step - first) dt: times come from one multiplication, not from a long sum."""

    origin: float
    first: int
    dt: float

    def time(self, step: int) -> float:
        """The time after `step` steps."""
        return self.origin + (step - self.first) * self.dt


@dataclass
class Baseline:
    """Where many conserved quantities began, and what loads have done to them since.

    Attributes:
        first: Their values at the start.
        impulse: The sum of the loads from t = 0 to `t`, with the weights of the method's steps.
        t: When the run was last looked at.
    """

    first: PETSc.Vec
    impulse: PETSc.Vec
    t: float = 0.0

    def copy(self) -> Baseline:
        """An independent copy."""
        return Baseline(self.first.copy(), self.impulse.copy(), self.t)


@dataclass
class State:
    """A point (q, v) of phase space at time t, reached after `step` steps; advanced in place.

    Attributes:
        q: Displacements (second order) or fluxes (first order).
        v: Velocities.
        t: The time.
        step: The number of steps so far.
        work: What the loads have put in since the start, summed with the method's own stages.
        outflow: What the damping has taken out, likewise.
        memory: Vectors that a method carries from step to step (generalized-alpha's acceleration).
        clock: The clock of the run that made this state, with which it can be continued exactly.
        method: The method of that run.
        origin: What drifts of conserved quantities are measured from, by name: see Baseline.
    """

    q: PETSc.Vec
    v: PETSc.Vec
    t: float = 0.0
    step: int = 0
    work: float = 0.0
    outflow: float = 0.0
    memory: dict[str, PETSc.Vec] = field(default_factory=dict)
    clock: Clock | None = None
    method: Any = None
    origin: dict[str, Baseline] = field(default_factory=dict)

    def copy(self) -> State:
        """An independent copy, from which a run can start again."""
        memory = {name: vector.copy() for name, vector in self.memory.items()}
        origin = {name: baseline.copy() for name, baseline in self.origin.items()}
        return replace(self, q=self.q.copy(), v=self.v.copy(), memory=memory, origin=origin)
