"""What all waves have in common: rho d²u/dt² = -D*(C D u) + f."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mpi4py import MPI

import numpy as np
import numpy.typing as npt
import ufl

from hamfem.domain import Domain
from hamfem.physics.boundary import Condition, Impedance, check, names
from hamfem.physics.coefficient import Coefficient
from hamfem.physics.source import Source


@dataclass(frozen=True, eq=False)
class Wave:
    """rho d²u/dt² = -D*(C D u) + f with D given by its symbol; a physics is a subclass.

    Attributes:
        domain: The mesh and the names of its parts.
        boundary: The conditions; a side that none names is free.
        sources: f, a sum of sources.
        symbol: D as a tensor (see hamfem.physics.operators), flux components first.
        rho: The density.
        C: The stiffness: a number or a matrix that acts on the flux components.
        scalar: Whether u is a scalar; a vector has as many components as the symbol says.
        tangential: Whether only the tangential part of u has a trace.
    """

    domain: Domain
    boundary: Sequence[Condition] = ()
    sources: Sequence[Source] = ()
    symbol: npt.NDArray[np.float64] = field(init=False, repr=False)
    rho: Coefficient = field(init=False, repr=False)
    C: Coefficient = field(init=False, repr=False)
    scalar: bool = field(init=False, repr=False, default=True)
    tangential: bool = field(init=False, repr=False, default=False)

    def _check(self) -> None:
        check(self.domain, self.boundary)
        for source in self.sources:
            if not isinstance(source, Source):
                raise TypeError(f"{source!r} is not a source: use hf.Source(shape, amplitude).")

    def D(self, u: Any) -> Any:
        """D u as a UFL vector of flux components."""
        rows = []
        for row in self.symbol:
            terms = [
                float(row[i, j]) * (u if self.scalar else u[i]).dx(int(j))
                for i, j in zip(*np.nonzero(row))
            ]
            rows.append(sum(terms[1:], terms[0]))
        return ufl.as_vector(rows)

    def stress(self, strain: Any, degree: int) -> Any:
        """C applied to a UFL vector of strain components."""
        C = self.C.ufl(degree)
        return C * strain if len(C.ufl_shape) == 0 else ufl.dot(C, strain)

    def compliance(self, q: Any, degree: int) -> Any:
        """C^-1 applied to a UFL vector of flux components."""
        C = self.C.ufl(degree)
        return q / C if len(C.ufl_shape) == 0 else ufl.dot(ufl.inv(C), q)

    def facets(self, kind: type) -> npt.NDArray[np.int32]:
        """The facets on this rank, ghosts included, whose condition is of this kind."""
        return self.domain.facets(*names(self.boundary, kind))

    @property
    def absorbing(self) -> bool:
        """Whether a wall takes energy out."""
        return any(isinstance(c, Impedance) for c in self.boundary)

    @property
    def diameter(self) -> float:
        """The length of the diagonal of the domain's bounding box."""
        x, comm = self.domain.mesh.geometry.x, self.domain.comm
        lower, upper = np.empty(3), np.empty(3)
        comm.Allreduce(x.min(axis=0, initial=np.inf), lower, MPI.MIN)
        comm.Allreduce(x.max(axis=0, initial=-np.inf), upper, MPI.MAX)
        return float(np.linalg.norm(upper - lower))

    @property
    def slowest_crossing(self) -> float:
        """How long a wave takes at most, or nearly so, to cross the domain."""
        return self.diameter * np.sqrt(self.rho.extreme(True) / self.C.extreme(False))
