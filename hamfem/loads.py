"""Loads that need no assembly in a time step: amplitudes times fixed vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from petsc4py import PETSc

import numpy as np
import numpy.typing as npt

from hamfem.communicator import lasting
from hamfem.matrices import as_petsc, as_vector

Numbers = Sequence[float] | npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Load:
    """f(t) = amplitude(t) x vector.

    Attributes:
        amplitude: A function of time.
        vector: A PETSc vector, or an array of all entries.
        antiderivative: An antiderivative of the amplitude. Explicit methods of Nyström type need it
            for a load on the q equation; others use it if it is there.
    """

    amplitude: Callable[[float], float]
    vector: Any
    antiderivative: Callable[[float], float] | None = None


@dataclass(frozen=True, eq=False)
class SampledLoad:
    """f(t) = W g(t), for data that do not separate: g is sampled, W is assembled once.

    Attributes:
        W: A matrix, one column for each sample.
        g: A function of time that returns all samples, or those of this rank.
    """

    W: Any
    g: Callable[[float], Any]


class Loads:
    """The sum of several loads on one equation."""

    def __init__(self, loads: Sequence[Load | SampledLoad], template: PETSc.Vec) -> None:
        self._template = template
        self._separated: list[tuple[Load, PETSc.Vec]] = []
        self._sampled: list[tuple[SampledLoad, PETSc.Mat, PETSc.Vec]] = []
        for load in loads:
            if isinstance(load, Load):
                self._separated.append((load, as_vector(load.vector, template, "a load")))
            elif isinstance(load, SampledLoad):
                W = as_petsc(load.W, "W of a load", lasting(template.comm.tompi4py()))
                if W.size[0] != template.size:
                    raise ValueError(f"W has {W.size[0]} rows and the system {template.size}.")
                self._sampled.append((load, W, W.createVecRight()))
            else:
                raise TypeError(f"a load is a hf.Load or a hf.SampledLoad: {load!r} is neither.")

    def __bool__(self) -> bool:
        return bool(self._separated or self._sampled)

    @property
    def integrable(self) -> bool:
        """Whether every load has its antiderivative."""
        return not self._sampled and all(load.antiderivative for load, _ in self._separated)

    def add(self, times: Numbers, weights: Numbers, out: PETSc.Vec) -> None:
        """Add the sum of weight x f(time) to `out`."""
        for load, vector in self._separated:
            out.axpy(sum(w * load.amplitude(t) for t, w in zip(times, weights)), vector)
        for sampled, W, samples in self._sampled:
            first, last = samples.getOwnershipRange()
            total = np.zeros(last - first)
            for t, w in zip(times, weights):
                values = np.asarray(sampled.g(t), dtype=float)
                total += w * (values[first:last] if len(values) == samples.size else values)
            samples.array[:] = total
            W.multAdd(samples, out, out)

    def add_integral(self, start: float, end: float, out: PETSc.Vec) -> None:
        """Add the integral of f from `start` to `end`, by the antiderivatives."""
        for load, vector in self._separated:
            assert load.antiderivative is not None
            out.axpy(load.antiderivative(end) - load.antiderivative(start), vector)
