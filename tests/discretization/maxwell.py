"""The discretizations of Maxwell's equations and their cells, shared by the tests."""

from mpi4py import MPI

import hamfem as hf

COMM = MPI.COMM_WORLD
SIDES = ["left", "right", "bottom", "top", "back", "front"]
METHODS = {
    "mixed": hf.mixed,
    "dual": lambda wave, k: hf.mixed(wave, k, dual=True),
    "cg": hf.cg,
    "hdg": hf.hdg,
    "dissipative_hdg": hf.dissipative_hdg,
}
# Name -> cell, polarization, dimension.
KINDS = {
    "TE": ("triangle", "TE", 2),
    "TM": ("triangle", "TM", 2),
    "TE squares": ("quadrilateral", "TE", 2),
    "TM squares": ("quadrilateral", "TM", 2),
    "3D": ("tetrahedron", None, 3),
    "3D cubes": ("hexahedron", None, 3),
}


def box(kind, n, comm=COMM, upper=None):
    """A mesh of unit size, and the polarization."""
    cell, polarization, dim = KINDS[kind]
    return hf.box(comm, (0,) * dim, upper or (1,) * dim, n, cell), polarization


def conducting(dim):
    """Perfectly conducting walls all around."""
    return [hf.Clamped(*SIDES[: 2 * dim])]
