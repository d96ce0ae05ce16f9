"""The time loop, as a generator."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Protocol

from hamfem.system import SecondOrder, State


class Method(Protocol):
    """What a time-marcher offers."""

    def stable_dt(self, system: SecondOrder) -> float:
        """The largest stable time step, or infinity."""

    def bind(self, system: SecondOrder, dt: float) -> Callable[[State, int], None]:
        """A function advance(state, n) with everything factorised and allocated once."""


def march(
    system: SecondOrder, method: Method, state: State, dt: float, t_end: float, every: int = 1
) -> Iterator[State]:
    """Advance `state` in place to t_end; yield it after every `every` steps and at t_end.

    dt is made slightly smaller where needed, so that a whole number of steps ends at t_end.

    Raises:
        ValueError: dt is not usable: zero, not finite, of the wrong sign, or beyond the stable one.
        FloatingPointError: The energy grew a hundredfold or is not a number.
    """
    span = t_end - state.t
    if not math.isfinite(dt) or dt == 0 or span * dt < 0:
        raise ValueError(
            f"dt = {dt} does not lead from t = {state.t} to t_end = {t_end}: change it."
        )
    if every < 1:
        raise ValueError(f"every must be at least 1 and is {every}.")
    steps = math.ceil(abs(span / dt) * (1 - 1e-12))
    dt = span / max(steps, 1)
    limit = method.stable_dt(system)
    if abs(dt) > limit:
        raise ValueError(
            f"dt = {abs(dt):.6g} is beyond the stable step {limit:.6g} of {type(method).__name__} "
            "on this mesh: take a smaller dt or an implicit method."
        )
    return _march(system, method, state, dt, t_end, steps, every)


def _march(
    system: SecondOrder,
    method: Method,
    state: State,
    dt: float,
    t_end: float,
    steps: int,
    every: int,
) -> Iterator[State]:
    """The loop itself; apart from `march` so that a bad call fails at the call."""
    if steps == 0:
        return
    advance = method.bind(system, dt)
    start, first_step, energy0 = state.t, state.step, system.energy(state)
    done = 0
    while done < steps:
        n = min(every, steps - done)
        advance(state, n)
        done += n
        state.step = first_step + done
        state.t = t_end if done == steps else start + done * dt
        energy = system.energy(state)
        if not math.isfinite(energy) or energy > 100 * energy0 + 1e-300:
            raise FloatingPointError(
                f"the run blew up: at t = {state.t:.6g} the energy is {energy:.3g} and was "
                f"{energy0:.3g} at the start; take a smaller dt."
            )
        yield state
