"""What all waves have in common: rho d²u/dt² = -D*(C D u) + f."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from mpi4py import MPI

import numpy as np
import numpy.typing as npt
import ufl

from hamfem.dolfinx_versions import cell_nodes
from hamfem.domain import Domain
from hamfem.physics.boundary import Condition, Impedance, check, names
from hamfem.physics.coefficient import Coefficient
from hamfem.physics.source import Source
from hamfem.physics.speeds import slowest_and_fastest, star

Array = npt.NDArray[Any]
Motion = Callable[[Array], Array]


class Wave:
    """rho d²u/dt² = -D*(C D u) + f with D given by its symbol; a physics is a subclass.

    Attributes:
        domain: The mesh and the names of its parts.
        boundary: The conditions; a side that none names is free.
        sources: f, a sum of sources.
        symbol: D as a tensor (see hamfem.physics.operators), flux components first.
        rho: The density: a number, or a matrix that acts on the components of u.
        C: The stiffness: a number or a matrix that acts on the flux components.
        shape: Of the values of u: () for a scalar, (d,) for a vector.
        tangential: Whether only the tangential part of u has a trace.
        flux_name: What the field of the flux C D u is called.
        tracked: The fields that densities are made of, where the discretization has them.
    """

    tangential = False
    flux_name = "q"
    tracked: tuple[str, ...] = ("u", "v", "q")

    def __init__(
        self,
        domain: Domain,
        boundary: Sequence[Condition],
        sources: Sequence[Source],
        symbol: npt.NDArray[np.float64],
        rho: Coefficient,
        C: Coefficient,
        shape: tuple[int, ...],
    ) -> None:
        self.domain, self.boundary, self.sources = domain, tuple(boundary), tuple(sources)
        self.symbol, self.rho, self.C, self.shape = symbol, rho, C, shape
        check(domain, self.boundary)
        for source in self.sources:
            if not isinstance(source, Source):
                raise TypeError(f"{source!r} is not a source: use hf.Source(shape, amplitude).")

    @property
    def components(self) -> int:
        """The number of components of u."""
        return self.symbol.shape[1]

    @property
    def scalar(self) -> bool:
        """Whether u is a scalar."""
        return self.shape == ()

    @property
    def motions(self) -> Mapping[str, Sequence[Motion]]:
        """The motions w without strain, x -> array, by the name of their momenta (rho v, w)."""
        return {}

    def densities(self, fields: Mapping[str, Any], t: Any, degree: int) -> dict[str, Any]:
        """Quantities with a local conservation law: name -> (density, flux), in UFL.

        Args:
            fields: The velocity v, the flux, and u where the discretization has it.
            t: The time.
            degree: Of the functions.
        """
        return {}

    def derived(self, known: Iterable[str]) -> dict[str, tuple[str, Callable[[Any], Any]]]:
        """More fields for output: the known field that each is made of, and how, in UFL."""
        return {}

    def D(self, u: Any) -> Any:
        """D u as a UFL vector of flux components."""
        rows = []
        for row in self.symbol:
            terms = [
                float(row[i, j]) * (u if self.scalar else u[int(i)]).dx(int(j))
                for i, j in zip(*np.nonzero(row))
            ]
            rows.append(sum(terms[1:], terms[0]))
        return ufl.as_vector(rows)

    def stress(self, strain: Any, degree: int) -> Any:
        """C applied to a UFL vector of strain components."""
        C = self.C.ufl(degree)
        return C * strain if len(C.ufl_shape) == 0 else ufl.dot(C, strain)

    def flux_field(self, q: Any) -> Any:
        """The UFL field whose divergence is the force, from the flux components: (D(n)'q)_i."""
        d = self.domain.dim
        rows = [
            [sum(float(a) * q[i] for i, a in enumerate(self.symbol[:, c, j])) for j in range(d)]
            for c in range(self.components)
        ]
        return ufl.as_vector(rows[0]) if self.scalar else ufl.as_matrix(rows)

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
    def isotropic(self) -> bool:
        """Whether all directions are alike."""
        return not (self.C.is_matrix or self.rho.is_matrix)

    def _cell_speeds(self) -> Array:
        """The slowest and the fastest plane wave in the middle of each own cell, (2, cells)."""
        cells = self.domain.own_cells
        C, rho = self.C.middle(cells), self.rho.middle(cells)
        directions = star(self.domain.dim)[: 1 if self.isotropic else None]
        return slowest_and_fastest(self.symbol, C, rho, directions, int(self.tangential))

    def speeds(self) -> tuple[float, float]:
        """The slowest and the fastest plane wave: of an elastic body, shear and pressure waves."""
        slow, fast = self._cell_speeds()
        comm = self.domain.comm
        return (
            comm.allreduce(slow.min(initial=np.inf), MPI.MIN),
            comm.allreduce(fast.max(initial=0.0), MPI.MAX),
        )

    def points_per_wavelength(self, frequency: float, degree: int) -> float:
        """How many nodes of a polynomial degree the shortest wave has where the mesh is coarsest.

        Its wavelength is that of the slowest wave; a cell counts by its longest diagonal. Waves
        that travel far want 10 with degree 2, and 5 with degree 4.

        Args:
            frequency: In cycles per time.
            degree: Of the elements.
        """
        if not frequency > 0:
            raise ValueError(f"a frequency is a positive number: {frequency!r} is not one.")
        mesh = self.domain.mesh
        x = mesh.geometry.x[cell_nodes(mesh)[self.domain.own_cells]]
        diagonals = np.linalg.norm(x[:, :, None] - x[:, None, :], axis=-1)
        h = diagonals.max(axis=(1, 2)) if len(x) else np.ones(0)
        points = self._cell_speeds()[0] / frequency * degree / h
        return float(self.domain.comm.allreduce(points.min(initial=np.inf), MPI.MIN))

    @property
    def slowest_crossing(self) -> float:
        """How long a wave takes at most, or nearly so, to cross the domain."""
        return self.diameter * np.sqrt(self.rho.extreme(True) / self.C.extreme(False))
