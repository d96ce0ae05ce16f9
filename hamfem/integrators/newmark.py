"""Newmark's method and its generalization with controlled damping of high frequencies."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from petsc4py import PETSc

import numpy as np

from hamfem.integrators.method import Advance, Method, Quadrature, System
from hamfem.state import State


@dataclass(frozen=True)
class _AccelerationMethod(Method):
    """The family of generalized-alpha; displacements enter only through their differences.

    (1 - am) M a1 + am M a0 = force(1 - af of the way)
    q1 = q + F (dt v + dt² ((1/2 - beta) a0 + beta a1)),   v1 = v + dt ((1 - gamma) a0 + gamma a1)
    """

    gamma: float
    beta: float
    am: float = 0.0
    af: float = 0.0

    negative_steps = False
    memorised = False

    def bind(self, system: System, dt: float) -> Advance:
        """A function that advances a state by n steps, one solve each."""
        if system.R_q is not None:
            raise ValueError(
                f"{self.name} knows no damping of q: take a Runge-Kutta method, like hf.Gauss(1)."
            )
        am, af, beta, gamma = self.am, self.af, self.beta, self.gamma
        scale = (1 - af) / (1 - am)
        solve = system.shifted(scale * beta * dt**2, scale * gamma * dt)
        R, loads, flux_loads = system.R, system.loads, system.flux_loads
        a1, r, w = (system.new_v() for _ in range(3))
        delta, middle = system.new_v(), system.new_v()
        Q, dq, g = (system.new_q() for _ in range(3))
        f = system.new_v() if loads else None
        initial = self._initial(system)
        recomputed = None if self.memorised else system.new_v()

        def advance(state: State, n: int) -> None:
            if recomputed is not None:
                a0 = initial(state, recomputed)
            elif "acceleration" in state.memory:
                a0 = state.memory["acceleration"]
            else:
                a0 = state.memory["acceleration"] = initial(state, system.new_v())
            start = state.t
            for i in range(n):
                t = start + i * dt
                # predictors without a1
                delta.zeroEntries()
                delta.maxpy([dt, dt**2 * (0.5 - beta)], [state.v, a0])
                system.flux(delta, dq)
                if flux_loads:
                    g.zeroEntries()
                    flux_loads.add([t, t + dt], [dt / 2, dt / 2], g)
                    system.flux_solve(g, Q)
                    state.work += g.dot(state.q) + 0.5 * g.dot(dq) + 0.5 * g.dot(Q)
                    dq.axpy(1.0, Q)
                Q.waxpy(1 - af, dq, state.q)
                system.restoring(Q, r)
                if R is not None:
                    middle.waxpy((1 - af) * dt * (1 - gamma), a0, state.v)
                    R.mult(middle, w)
                    r.axpy(-1.0, w)
                if f is not None:
                    f.zeroEntries()
                    loads.add([t + (1 - af) * dt], [1.0], f)
                    r.axpy(1.0, f)
                if am:
                    system.mass(a0, w)
                    r.axpy(-am, w)
                r.scale(1 / (1 - am))
                solve(r, a1)
                # correctors
                state.q.axpy(1.0, dq)
                if beta:
                    system.flux(a1, Q)
                    state.q.axpy(dt**2 * beta, Q)
                if f is not None:
                    f.zeroEntries()
                    loads.add([t, t + dt], [0.5, 0.5], f)
                    delta.axpy(dt**2 * beta, a1)
                    state.work += f.dot(delta)
                if R is not None:
                    middle.waxpy(0.5 * dt * (1 - gamma), a0, state.v)
                    middle.axpy(0.5 * dt * gamma, a1)
                    R.mult(middle, w)
                    state.outflow += dt * w.dot(middle)
                state.v.maxpy([dt * (1 - gamma), dt * gamma], [a0, a1])
                a1.copy(a0)

        return advance

    @property
    def name(self) -> str:
        """What the method is called."""
        return f"Newmark({self.gamma:g}, {self.beta:g})"

    @property
    def limit(self) -> float:
        """1/sqrt(gamma/2 - beta); none if beta >= gamma/2."""
        gap = self.gamma / 2 - self.beta
        return 1 / math.sqrt(gap) if gap > 1e-14 else math.inf

    @staticmethod
    def _initial(system: System) -> Callable[[State, PETSc.Vec], PETSc.Vec]:
        """A with M a = restoring(q) - R v + f(t)."""
        r, w = system.new_v(), system.new_v()

        def initial(state: State, a: PETSc.Vec) -> PETSc.Vec:
            system.restoring(state.q, r)
            if system.R is not None:
                system.R.mult(state.v, w)
                r.axpy(-1.0, w)
            system.loads.add([state.t], [1.0], r)
            system.mass_solve(r, a)
            return a

        return initial


@dataclass(frozen=True)
class Newmark(_AccelerationMethod):
    """u1 = u + dt v + dt² ((1/2 - beta) a0 + beta a1), v1 = v + dt ((1 - gamma) a0 + gamma a1).

    gamma = 1/2: order 2, symplectic, and 1/2 v'Mv + 1/2 u'Ku + dt²/2 (beta - 1/4) a'Ma is constant;
    stable for every dt if beta >= 1/4 and up to omega dt = 1/sqrt(1/4 - beta) otherwise. (1/2, 1/4)
    is the trapezoidal rule, on linear systems conjugate to and as good as the midpoint rule;
    (1/2, 0) is the central difference method. gamma > 1/2: order 1, the energy decays.
    """

    gamma: float = 0.5
    beta: float = 0.25

    def __post_init__(self) -> None:
        if self.gamma < 0.5 or self.beta < 0 or self.am or self.af:
            raise ValueError(
                f"Newmark({self.gamma}, {self.beta}) is unstable for every dt: gamma must be at "
                "least 1/2 and beta at least 0."
            )

    def quadrature(self, half: str, integrable: bool = False) -> Quadrature:
        """The ends of a step: those of the accelerations, or the trapezoidal rule for q."""
        weights = [1 - self.gamma, self.gamma] if half == "v" else [0.5, 0.5]
        return np.array([0.0, 1.0]), np.array(weights)

    @property
    def order(self) -> int:
        """2 for gamma = 1/2, else 1."""
        return 2 if self.gamma == 0.5 else 1

    @property
    def symplectic(self) -> bool:
        """For gamma = 1/2."""
        return self.gamma == 0.5

    symmetric = symplectic


@dataclass(frozen=True, init=False)
class GeneralizedAlpha(_AccelerationMethod):
    """Chung and Hulbert's method of order 2: infinite frequencies are damped by rho_inf per step.

    am = (2 rho - 1)/(rho + 1), af = rho/(rho + 1), gamma = 1/2 - am + af, beta = (1 - am + af)²/4;
    stable for every dt. The acceleration is carried along in state.memory.
    """

    rho_inf: float = 1.0

    @property
    def name(self) -> str:
        """What the method is called."""
        return f"GeneralizedAlpha({self.rho_inf:g})"

    order = 2
    symplectic = False
    symmetric = False
    memorised = True

    def __init__(self, rho_inf: float) -> None:
        if not 0 <= rho_inf <= 1:
            raise ValueError(f"rho_inf must lie between 0 and 1 and is {rho_inf}.")
        am, af = (2 * rho_inf - 1) / (rho_inf + 1), rho_inf / (rho_inf + 1)
        values = {
            "am": am,
            "af": af,
            "gamma": 0.5 - am + af,
            "beta": 0.25 * (1 - am + af) ** 2,
            "rho_inf": rho_inf,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
