"""Waves for the Yee scheme, shared by its tests."""

import numpy as np

import hamfem as hf
from tests.discretization.maxwell import COMM, SIDES

# Name -> cell, polarization, cells in each direction.
KINDS = {
    "3D": ("hexahedron", None, (6, 5, 4)),
    "TE": ("quadrilateral", "TE", (7, 6)),
    "TM": ("quadrilateral", "TM", (7, 6)),
}
WALLS = {
    "free": lambda dim: [],
    "conducting": lambda dim: [hf.Clamped(*SIDES[: 2 * dim])],
    "absorbing": lambda dim: [hf.Clamped("top"), hf.Impedance("left", "right", "bottom")],
    "periodic": lambda dim: [hf.Periodic(*SIDES[i : i + 2]) for i in range(0, 2 * dim, 2)],
    "tube": lambda dim: [hf.Periodic("left", "right"), hf.Clamped("top")],
}


def grid(kind, comm=COMM, n=None, upper=None):
    """A box with unequal sides, and the polarization."""
    cell, polarization, cells = KINDS[kind]
    cells = n or cells
    dim = len(cells)
    return hf.box(comm, (0,) * dim, upper or (1, 1.3, 0.7)[:dim], cells, cell), polarization


def field(kind):
    """A pulse that is along no axis."""
    dim = len(KINDS[kind][2])
    pulse = hf.exact.bump((0.4, 0.6, 0.3)[:dim], 0.3)
    if kind == "TM":
        return pulse
    return lambda x: pulse(x) * np.stack([1 + 0 * x[0], 0.5 * x[0], x[1]][:dim])


def rough(seed):
    """A coefficient that jumps from place to place."""
    return lambda x: 1.5 + np.sin(1e3 * (x[0] + 2.7 * x[1] + 7.9 * x[2]) + seed)


def random_state(system, seed=0):
    """Numbers at random everywhere but on conducting walls."""
    q, v = system.new_q(), system.new_v()
    for x, family, s in ((q, system.H, seed), (v, system.E, seed + 1)):
        with x as array:
            for a, stagger in zip(family.axes, family.staggers):
                index = np.meshgrid(*system.grid.indices(stagger), indexing="ij")
                block = family.blocks(array)[a]
                block[...] = np.sin(s + a + 12.9898 * index[0] + 78.233 * index[1]
                                    + 37.719 * index[2] + index[0] * index[1] ** 2)  # fmt: skip
                block[system.grid.conducting(stagger) & (family is system.E)] = 0.0
    return hf.State(q, v)
