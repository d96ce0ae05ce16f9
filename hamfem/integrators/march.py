"""The time loop, as a generator."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hamfem.integrators.method import Method, System
from hamfem.state import Clock, State


def march(
    system: System,
    method: Method,
    state: State,
    dt: float,
    t_end: float,
    every: int = 1,
    allow_unstable: bool = False,
) -> Iterator[State]:
    """Advance `state` in place to t_end; yield it after every `every` steps and at t_end.

    dt is made slightly smaller where needed, so that a whole number of steps ends at t_end; it is
    negative for a run back in time. Between two yields nothing but the steps is done. A run that is
    continued from a copy of a yielded state, with the same dt and t_end, gives the same bits; on
    several ranks only where no factorisation is used, because MUMPS adds in the order in which
    messages arrive.

    Raises:
        ValueError: dt is not usable: zero, not finite, of the wrong sign, or beyond the stable one
            (unless `allow_unstable`); or the method goes back in time and the system is damped.
        FloatingPointError: The energy is not a number, or grew beyond what was put in.
    """
    if not math.isfinite(dt) or dt == 0 or (t_end - state.t) * dt < 0:
        raise ValueError(
            f"dt = {dt} does not lead from t = {state.t} to t_end = {t_end}: change it."
        )
    if every < 1:
        raise ValueError(f"every must be at least 1 and is {every}.")
    damped = system.R is not None or system.R_q is not None
    if damped and method.negative_steps:
        raise ValueError(
            f"{method.name} has substeps back in time, in which damping grows without bound: on "
            "a damped system take a method without them, such as hf.Gauss or hf.Verlet."
        )
    if system.kinetic(state) < 0:
        raise ValueError(
            "the kinetic energy is negative: the mass matrix must be positive definite."
        )
    clock, steps = _clock(state, dt, t_end)
    limit = math.inf if allow_unstable else method.stable_dt(system)
    if abs(clock.dt) > limit:
        raise ValueError(
            f"dt = {abs(clock.dt):.6g} is beyond the stable step {limit:.6g} of {method.name} on "
            "this system: take a smaller dt or an implicit method (or allow_unstable=True)."
        )
    return _march(system, method, state, clock, steps, t_end, every, limit)


def _clock(state: State, dt: float, t_end: float) -> tuple[Clock, int]:
    """The clock of this run, and its number of steps: that of an earlier run if it still fits."""
    span = t_end - state.t
    steps = math.ceil(abs(span / dt) * (1 - 1e-12))
    if not steps:
        return Clock(state.t, state.step, dt), 0
    dt = span / steps
    old = state.clock
    if old is not None and abs(old.dt - dt) < 1e-10 * abs(dt) and old.time(state.step) == state.t:
        return old, steps
    return Clock(state.t, state.step, dt), steps


def _march(
    system: System,
    method: Method,
    state: State,
    clock: Clock,
    steps: int,
    t_end: float,
    every: int,
    limit: float,
) -> Iterator[State]:
    """The loop itself; apart from `march` so that a bad call fails at the call."""
    if steps == 0:
        return
    advance = method.bind(system, clock.dt)
    if system.at_rest is not None:
        advance = system.at_rest.apart(advance, clock.dt, system)
    state.clock, state.method = clock, method
    end = state.step + steps
    # The energy of explicit methods oscillates, the more the closer dt is to its limit.
    margin = 100 / max(1 - (clock.dt / limit) ** 2, 1e-6)
    energy0, work0, put_in = system.energy(state), state.work, 0.0
    while state.step < end:
        n = min(every, end - state.step)
        advance(state, n)
        state.step += n
        state.t = clock.time(state.step)
        # The kinetic part is cheap and grows with the rest.
        energy = system.kinetic(state)
        put_in = max(put_in, abs(state.work - work0))
        if not math.isfinite(energy) or energy > margin * (energy0 + put_in) + 1e-300:
            energy = system.energy(state)
            raise FloatingPointError(
                f"the run blew up: at t = {state.t:.6g} the energy is {energy:.3g}; at the start "
                f"it was {energy0:.3g}, and the loads put in {state.work - work0:.3g}: take a "
                "smaller dt."
            )
        if state.step == end:
            # Exactly t_end, unless the clock's own rounding must be kept for a later run.
            state.t = t_end
        yield state
