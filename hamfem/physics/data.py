"""Data that depend on time: amplitude(t) x shape(x), or g(x, t), with their time derivatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import sympy

Function = Callable[[float], float]


@dataclass(frozen=True)
class Amplitude:
    """A function of time, with its first two derivatives and an antiderivative where known.

    Built by `amplitude` from a number, a callable, a tuple (a, a', a'') of callables, or a sympy
    expression in t, which is differentiated and integrated exactly (sympy takes its time for the
    integral of a Ricker pulse, which most methods do without).
    """

    value: Function
    first: Function | None = None
    second: Function | None = None
    integral: Function | None = None
    expression: Any = None

    @cached_property
    def antiderivative(self) -> Function | None:
        """An antiderivative; that of an expression is looked for when it is first needed."""
        if self.integral is not None or self.expression is None:
            return self.integral
        t = sympy.Symbol("t")
        found = sympy.integrate(self.expression, t)
        return None if found.has(sympy.Integral) else _lambda(found, t)

    def __call__(self, t: float) -> float:
        """The value at time t."""
        return self.value(t)

    def derivative(self, order: int = 1) -> Amplitude:
        """A derivative; the antiderivative of the first is this amplitude itself."""
        if order == 0:
            return self
        if self.first is None:
            raise MissingDerivativeError
        return Amplitude(self.first, self.second, None, self.value).derivative(order - 1)


class MissingDerivativeError(ValueError):
    """Data whose time derivative is needed and was not given."""

    def __init__(self) -> None:
        super().__init__(
            "a prescribed displacement or flux needs its time derivatives: give the amplitude as a "
            "sympy expression in t, or as a tuple of callables (a, a', a'')."
        )


def amplitude(a: Any) -> Amplitude:
    """An Amplitude from what a user writes."""
    if isinstance(a, Amplitude):
        return a
    if isinstance(a, sympy.Expr):
        t = sympy.Symbol("t")
        foreign = {str(s) for s in a.free_symbols} - {"t"}
        if foreign:
            raise ValueError(f"an amplitude depends on t alone and this one on {sorted(foreign)}.")
        a = a.subs({s: t for s in a.free_symbols})
        value, first, second = (_lambda(e, t) for e in (a, a.diff(t), a.diff(t, 2)))
        return Amplitude(value, first, second, None, a)
    if isinstance(a, tuple) and all(callable(f) for f in a) and 1 <= len(a) <= 3:
        return Amplitude(*a)
    if callable(a):
        return Amplitude(a)
    if isinstance(a, int | float | np.number) and np.isfinite(a):
        constant = float(a)
        return Amplitude(lambda t: constant, lambda t: 0.0, lambda t: 0.0, lambda t: constant * t)
    raise TypeError(f"an amplitude is a number, a callable or a sympy expression: {a!r} is none.")


def _lambda(expression: Any, t: Any) -> Function:
    f = sympy.lambdify(t, expression, "math")
    return lambda time: float(f(time))


@dataclass(frozen=True, eq=False)
class Separated:
    """amplitude(t) x shape(x); the shape is a number or vector, a callable x -> array or UFL."""

    shape: Any
    amplitude: Amplitude


@dataclass(frozen=True, eq=False)
class Sampled:
    """g(x, t), with its first two time derivatives where they are needed."""

    value: Callable[[Any, float], Any]
    first: Callable[[Any, float], Any] | None = None
    second: Callable[[Any, float], Any] | None = None

    def derivative(self, order: int) -> Callable[[Any, float], Any]:
        """The function or one of its derivatives."""
        f = (self.value, self.first, self.second)[order]
        if f is None:
            raise MissingDerivativeError
        return f


Data = Separated | Sampled | None


def data(value: Any) -> Data:
    """What a boundary condition prescribes.

    A number; (shape, amplitude); a sympy expression in x, y, z, t; a callable g(x, t), or a tuple
    (g, dg/dt, d²g/dt²) of them. A vector is a list or an array of numbers, or a list or a Matrix of
    sympy expressions. None and 0 prescribe nothing.
    """
    if value is None or (isinstance(value, int | float | np.number) and value == 0):
        return None
    if isinstance(value, Separated | Sampled):
        return value
    if isinstance(value, int | float | np.number):
        return Separated(float(value), amplitude(1.0))
    if isinstance(value, sympy.Expr | sympy.MatrixBase):
        return _from_sympy(value)
    if isinstance(value, list) and any(isinstance(v, sympy.Expr) for v in value):
        return _from_sympy(sympy.Matrix(value))
    if isinstance(value, list | np.ndarray):
        return Separated(vector(value), amplitude(1.0))
    if isinstance(value, tuple):
        if len(value) == 3 and all(callable(f) for f in value):
            return Sampled(*value)
        if len(value) == 2:
            return Separated(value[0], amplitude(value[1]))
    if callable(value):
        return Sampled(value)
    raise TypeError(
        f"a value is a number or vector, (shape, amplitude), g(x, t) or a sympy expression: "
        f"{value!r} is none."
    )


def vector(value: Any) -> Any:
    """A list or array of numbers as an array."""
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    if array.ndim != 1 or not np.all(np.isfinite(array)):
        raise ValueError(f"a vector is a list of finite numbers: {value!r} is none.")
    return array


def _from_sympy(value: Any) -> Sampled:
    names = ("x", "y", "z", "t")
    foreign = {str(s) for s in value.free_symbols} - set(names)
    if foreign:
        raise ValueError(f"a value depends on x, y, z and t and this one on {sorted(foreign)}.")
    symbols = [sympy.Symbol(name) for name in names]
    value = value.subs({s: sympy.Symbol(str(s)) for s in value.free_symbols})

    def function(expression: Any) -> Callable[[Any, float], Any]:
        if isinstance(expression, sympy.MatrixBase):
            parts = [function(e) for e in expression]
            return lambda x, t: np.stack([part(x, t) for part in parts])
        f = sympy.lambdify(symbols, expression, "numpy")
        return lambda x, t: np.broadcast_to(f(x[0], x[1], x[2], t), x.shape[1:])

    t = symbols[3]
    return Sampled(*(function(e) for e in (value, value.diff(t), value.diff(t, 2))))
