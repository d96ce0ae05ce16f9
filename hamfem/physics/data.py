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
        found = _sympy_integral(self.expression)
        return None if found is None else _lambda(found, sympy.Symbol("t"))

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


class MissingIntegralError(ValueError):
    """Data whose time integral is needed and is not known."""

    def __init__(self) -> None:
        super().__init__(
            "the potential on a wall is the time integral of the tangential E prescribed there: "
            "give E as a sympy expression that sympy can integrate, or take hf.mixed, which needs "
            "no potential."
        )


class MissingDerivativeError(ValueError):
    """Data whose time derivative is needed and was not given."""

    def __init__(self) -> None:
        super().__init__(
            "a prescribed displacement, flux or field needs its time derivatives: give the "
            "amplitude as a sympy expression in t, or as a tuple of callables (a, a', a'')."
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
    expression: Any = None

    @cached_property
    def antiderivative(self) -> Callable[[Any, float], Any] | None:
        """An antiderivative in time of a sympy expression, if sympy finds one."""
        if self.expression is None:
            return None
        found = _sympy_integral(self.expression)
        return None if found is None else _sampler(found)

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


def _sympy_integral(expression: Any) -> Any:
    """The integral over t, or None if sympy finds none."""
    found = expression.integrate(sympy.Symbol("t"))
    return None if found.has(sympy.Integral) else found


def _from_sympy(value: Any) -> Sampled:
    names = ("x", "y", "z", "t")
    foreign = {str(s) for s in value.free_symbols} - set(names)
    if foreign:
        raise ValueError(f"a value depends on x, y, z and t and this one on {sorted(foreign)}.")
    value = value.subs({s: sympy.Symbol(str(s)) for s in value.free_symbols})
    t = sympy.Symbol("t")
    first, second = value.diff(t), value.diff(t, 2)
    return Sampled(_sampler(value), _sampler(first), _sampler(second), value)


def _sampler(expression: Any) -> Callable[[Any, float], Any]:
    """A function of points and time from a sympy expression, or from a matrix of them."""
    if isinstance(expression, sympy.MatrixBase):
        parts = [_sampler(e) for e in expression]
        return lambda x, t: np.stack([part(x, t) for part in parts])
    f = sympy.lambdify(sympy.symbols("x y z t"), expression, "numpy")
    return lambda x, t: np.broadcast_to(f(x[0], x[1], x[2], t), x.shape[1:])


@dataclass(frozen=True)
class _SinceStart(Amplitude):
    """The integral of an amplitude, which need not be known as long as its derivatives do."""

    def derivative(self, order: int = 1) -> Amplitude:
        """The derivatives do not refer to the integral."""
        if order == 0:
            return self
        assert self.first is not None
        return Amplitude(self.first, self.second).derivative(order - 1)


def since_start(data: Data, factor: float) -> Data:
    """`factor` times the integral of the data from 0 to t, whose derivatives are the data."""
    if data is None:
        return None

    def scaled(f: Any) -> Any:
        return None if f is None else lambda *x: factor * f(*x)

    if isinstance(data, Separated):
        a = data.amplitude

        def value(t: float) -> float:
            if a.antiderivative is None:
                raise MissingIntegralError
            return factor * (a.antiderivative(t) - a.antiderivative(0.0))

        return Separated(data.shape, _SinceStart(value, scaled(a.value), scaled(a.first)))

    def sampled(x: Any, t: float) -> Any:
        if data.antiderivative is None:
            raise MissingIntegralError
        return factor * (data.antiderivative(x, t) - data.antiderivative(x, 0.0))

    return Sampled(sampled, scaled(data.value), scaled(data.first))
