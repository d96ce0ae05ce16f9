"""Explicit symplectic integrators: sequences of kicks of v and drifts of q."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest

import numpy as np
import numpy.typing as npt

from hamfem.integrators.method import Advance, Method, Quadrature, System
from hamfem.stability import oscillator_limit
from hamfem.state import State

Operation = tuple[str, float]  # kick or drift, and how long in steps
TimedOperation = tuple[str, float, float, float]
BoundFlow = Callable[[State, float, float], None]
BoundOperation = tuple[BoundFlow, float, float]


@dataclass(frozen=True)
class Partitioned(Method):
    """Kicks v += b_i h M^-1 force(q) and drifts q += a_i h v, one after the other.

    Symplectic for any coefficients. Each set of coefficients may begin; the one with more entries
    does, and the kicks if they are equally many, unless `drift_first` says otherwise.

    Attributes:
        kicks: b_i, whose sum is 1.
        drifts: a_i, whose sum is 1.
        drift_first: Whether a drift begins.
        name: What the method is called.
        nystrom: Whether the order rests on a force that is linear in q: a load on the q equation
            then keeps the order only through its antiderivative.
        reference: Where the coefficients come from.
    """

    kicks: tuple[float, ...]
    drifts: tuple[float, ...]
    drift_first: bool = False
    name: str = "Partitioned"
    nystrom: bool = False
    reference: str = ""

    symplectic = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "kicks", tuple(float(b) for b in self.kicks))
        object.__setattr__(self, "drifts", tuple(float(a) for a in self.drifts))
        difference = len(self.kicks) - len(self.drifts)
        if abs(difference) > 1 or not self.kicks or not self.drifts:
            raise ValueError(
                f"kicks and drifts alternate: {len(self.kicks)} kicks and "
                f"{len(self.drifts)} drifts do not."
            )
        if difference:
            object.__setattr__(self, "drift_first", difference < 0)
        for name, values in (("kicks", self.kicks), ("drifts", self.drifts)):
            if not abs(sum(values) - 1) < 1e-12:
                raise ValueError(f"the {name} must add up to 1 and add up to {sum(values)}.")

    # ------------------------------------------------------------ properties

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """The kicks and drifts of one step, in their order."""
        kicks = [("kick", b) for b in self.kicks]
        drifts = [("drift", a) for a in self.drifts]
        both = (drifts, kicks) if self.drift_first else (kicks, drifts)
        return tuple(x for pair in zip_longest(*both) for x in pair if x is not None)

    @property
    def negative_steps(self) -> bool:
        """Whether a substep goes back in time."""
        return min(self.kicks + self.drifts) < 0

    @property
    def symmetric(self) -> bool:
        """Whether a step back undoes a step."""
        reverse = self.operations[::-1]
        return all(
            a[0] == b[0] and abs(a[1] - b[1]) < 1e-13 for a, b in zip(self.operations, reverse)
        )

    def propagator(self, y: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The matrices of one step for (omega q, v) on oscillators with omega h = y."""
        E = np.broadcast_to(np.eye(2), (len(y), 2, 2)).copy()
        for kind, weight in self.operations:
            row, other = (1, 0) if kind == "kick" else (0, 1)
            sign = -1.0 if kind == "kick" else 1.0
            E[:, row] += (sign * weight * y)[:, None] * E[:, other]
        return E

    @cached_property
    def limit(self) -> float:
        """The largest stable omega h."""
        # With determinant 1, a step is stable as long as the trace stays within -2 and 2.
        return oscillator_limit(
            lambda y: np.maximum(1.0, np.abs(np.trace(self.propagator(y), axis1=1, axis2=2)) / 2)
        )

    @cached_property
    def order(self) -> int:
        """The order on linear systems: how far a step agrees with the exponential."""
        return linear_order(self.operations)

    def quadrature(self, half: str, integrable: bool = False) -> Quadrature:
        """Kicks or drifts, at the time that the other ones have reached; drifts integrate."""
        if half == "q" and integrable:
            return super().quadrature(half, integrable)
        own = {"v": "kick", "q": "drift"}[half]
        steps = [(clock, h) for kind, h, clock, _ in _timed(self.operations) if kind == own]
        nodes, weights = np.array(steps).T
        return nodes, weights

    # ------------------------------------------------------------ marching

    def bind(self, system: System, dt: float) -> Advance:
        """A function that advances a state by n steps; what meets between two steps is merged."""
        if self.nystrom and system.flux_loads and not system.flux_loads.integrable:
            raise ValueError(
                f"{self.name} keeps its order with a load on the q equation only if the load has "
                "its antiderivative: give it, or take another method, such as Yoshida."
            )
        undamped = system.R is None and system.R_q is None
        if system.kernel is not None and undamped and not system.loads:
            return _apart(system, self.bind(system.without_kernel(), dt), dt)
        kinds = [kind for kind, _ in self.operations]
        damped = (system.R if kinds[0] == "kick" else system.R_q) is not None
        steps = _timed(self.operations)
        head, body, tail, joint = steps[:0], steps, steps[:0], steps[:0]
        if kinds[0] == kinds[-1] and not damped:
            # The flows that meet between two steps add up: one of length joint instead of two.
            head, body, tail = steps[:1], steps[1:-1], steps[-1:]
            joint = [(kinds[0], tail[0][1] + head[0][1], *tail[0][2:])]
        if compiled := system.compiled((head, body, joint, tail), dt):
            return compiled
        # A length that is the only one of its kind in the loop has a matrix of its own.
        lengths = {
            kind: {weight for other, weight, *_ in (*body, *joint) if other == kind and weight}
            for kind in ("kick", "drift")
        }

        def bound(part: list[TimedOperation], repeated: bool = False) -> list[BoundOperation]:
            return [
                (
                    _flow(system, kind, weight * dt, lengths[kind] == {weight}, repeated),
                    clock * dt,
                    own * dt,
                )
                for kind, weight, clock, own in part
            ]

        first, inner, between, last = bound(head, True), bound(body), bound(joint), bound(tail)
        if head and head[0][1] == tail[0][1]:
            # The last flow of a call comes again as the first of the next: the same object.
            last = [(first[0][0], *last[0][1:])]

        def advance(state: State, n: int) -> None:
            start = state.t
            for flow, clock, own in first:
                flow(state, start + clock, start + own)
            for i in range(n):
                t = start + i * dt
                for flow, clock, own in inner:
                    flow(state, t + clock, t + own)
                for flow, clock, own in between if i < n - 1 else last:
                    flow(state, t + clock, t + own)

        return advance


def _apart(system: System, advance: Advance, dt: float) -> Advance:
    """Motions without force go straight on, and the rest is advanced without them.

    That keeps their momenta free of round-off, once for many steps.
    """
    kernel = system.kernel
    assert kernel is not None

    def apart(state: State, n: int) -> None:
        velocity = kernel.take(state.v)
        place = kernel.take(state.q) if system.drift is None else None
        advance(state, n)
        kernel.give(velocity, state.v)
        if place is not None:
            kernel.give(place + n * dt * velocity, state.q)

    return apart


def _timed(operations: tuple[Operation, ...]) -> list[TimedOperation]:
    """The operations with the times, in steps, at which they begin.

    In a system with time-dependent loads, the load on v moves with q and its clock is advanced by
    the drifts; the load on q is seen at the time that the kicks have reached.
    """
    reached = {"kick": 0.0, "drift": 0.0}
    result = []
    for kind, weight in operations:
        result.append((kind, weight, reached["drift" if kind == "kick" else "kick"], reached[kind]))
        reached[kind] += weight
    return result


def _flow(system: System, kind: str, h: float, often: bool, repeated: bool) -> BoundFlow:
    """One kick or drift of length h, as a function of the state and the two clocks."""
    if h == 0.0:
        return lambda state, clock, own: None
    if kind == "drift" and system.drift is None:
        return lambda state, clock, own: state.q.axpy(h, state.v)
    half = system.kick if kind == "kick" else system.drift
    assert half is not None
    flow = half.flow(h, often, repeated)

    def apply(state: State, clock: float, own: float) -> None:
        x, y = (state.v, state.q) if kind == "kick" else (state.q, state.v)
        work, outflow = flow(x, y, clock, own, own + h)
        state.work += work
        state.outflow += outflow

    return apply


def linear_order(operations: tuple[Operation, ...], largest: int = 12) -> int:
    """How many powers of h a step has in common with the exponential, on a general oscillator.

    The polynomial matrices of y' = [[0, h], [-h, 0]] y are multiplied out; kicks and drifts have
    degree one, so that coefficient d of E(h) is a 2 x 2 matrix.
    """
    E: npt.NDArray[np.float64] = np.zeros((largest + 1, 2, 2))
    E[0] = np.eye(2)
    for kind, weight in operations:
        row, other, sign = (1, 0, -1.0) if kind == "kick" else (0, 1, 1.0)
        step = np.zeros_like(E)
        step[1:, row] = sign * weight * E[:-1, other]
        E = E + step
    A, exact = np.array([[0.0, 1.0], [-1.0, 0.0]]), np.eye(2)
    for degree in range(1, largest + 1):
        exact = exact @ A / degree
        if np.abs(E[degree] - exact).max() > 1e-11 / degree:
            return degree - 1
    return largest
