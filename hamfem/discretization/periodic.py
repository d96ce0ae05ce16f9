"""Periodic sides of a continuous space: dofs that are one, as a matrix of zeros and ones."""

from __future__ import annotations

from typing import Any

from mpi4py import MPI
from petsc4py import PETSc

import numpy as np
from dolfinx import fem
from scipy.spatial import cKDTree

from hamfem.discretization.assembly import assembled, offset
from hamfem.discretization.trace import translation
from hamfem.physics.boundary import Periodic
from hamfem.physics.wave import Wave


def identification(wave: Wave, V: fem.FunctionSpace) -> PETSc.Mat | None:
    """P with u = P z, one column for each class of identified dofs; None without periodic sides."""
    pairs = [c for c in wave.boundary if isinstance(c, Periodic)]
    if not pairs:
        return None
    domain, comm = wave.domain, wave.domain.comm
    index_map = V.dofmap.index_map
    owned = index_map.size_local
    x = V.tabulate_dof_coordinates()[:owned].copy()
    on_side = np.zeros(owned, bool)
    moved = np.zeros(owned, bool)
    for pair in pairs:
        shift = translation(domain, pair)
        for name, is_second in ((pair.first, False), (pair.second, True)):
            dofs = _dofs(V, domain.dim - 1, domain.facets(name))
            on_side[dofs] = True
            if is_second:
                x[dofs] -= shift
                moved[dofs] = True
    number = np.full(owned, -1, np.int64)
    masters = int(np.count_nonzero(~moved))
    first = offset(comm, masters)
    number[~moved] = first + np.arange(masters)
    candidates = on_side & ~moved
    points = np.concatenate(comm.allgather(x[candidates]))
    numbers = np.concatenate(comm.allgather(number[candidates]))
    far = 0.0
    if moved.any():
        distance, index = cKDTree(points).query(x[moved])
        far = float(distance.max())
        number[moved] = numbers[index]
    if comm.allreduce(far, MPI.MAX) > 1e-6 * wave.diameter:
        raise ValueError(
            "periodic sides must be translates of each other: a node of the second side has no "
            "partner on the first."
        )
    rows = index_map.local_range[0] + np.arange(owned)
    bs = V.dofmap.index_map_bs
    rows, columns = ((n[:, None] * bs + np.arange(bs)).ravel() for n in (rows, number))
    return assembled(comm, rows, columns, np.ones(owned * bs), owned * bs, masters * bs)


def _dofs(V: fem.FunctionSpace, dim: int, facets: Any) -> Any:
    """The owned dofs on the facets, wherever those were found."""
    dofs = fem.locate_dofs_topological(V, dim, facets)
    return dofs[dofs < V.dofmap.index_map.size_local]
