"""Electromagnetic waves: one method on one mesh, measured in a process of its own.

docker/run python benchmarks/maxwell.py METHOD DIM [--n N] [--degree K] [--steps STEPS] [--profile]

METHOD is mixed (edge elements on simplices, Verlet), cubes (the same on quadrilaterals and
hexahedra, with diagonal masses), potential or hdg (midpoint rule). One JSON line is printed, which
benchmarks/waves.py explains; benchmarks/run_maxwell runs all of them, and NGSolve with the same
work in turn.
"""

from typing import Any

from waves import Method, Physics, run

import hamfem as hf

SIDES = ("left", "right", "bottom", "top", "back", "front")
METHODS = {
    "mixed": Method(hf.mixed, hf.Verlet(), (96, 10), (2, 1)),
    "cubes": Method(hf.mixed, hf.Verlet(), (96, 20), (2, 1), cubes=True),
    "potential": Method(hf.cg, hf.Gauss(1), (96, 10), (2, 1)),
    "hdg": Method(hf.hdg, hf.Gauss(1), (64, 6), (2, 2)),
}


def wave(domain: hf.Domain) -> hf.Maxwell:
    """A conducting cavity; in 2D with E in the plane."""
    polarization = "TE" if domain.dim == 2 else None
    walls = [hf.Clamped(*SIDES[: 2 * domain.dim])]
    return hf.Maxwell(domain, polarization=polarization, boundary=walls)


def exact(dim: int, phase: float) -> hf.exact.CavityMode:
    """Its lowest mode."""
    return hf.exact.CavityMode(dim, "TE" if dim == 2 else None, phase=phase)


def state(system: Any, mode: hf.exact.CavityMode, t: float) -> hf.State:
    """The mode at a time."""
    return system.state(E=mode.E(t), A=mode.A(t), start="projection")


if __name__ == "__main__":
    run(Physics(wave, exact, METHODS, state))
