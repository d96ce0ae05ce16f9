"""Acoustic waves: one method on one mesh, measured in a process of its own.

docker/run python benchmarks/acoustic.py METHOD DIM [--n N] [--degree K] [--steps STEPS] [--profile]

METHOD is cg or hdg (midpoint rule), lumped or mixed (Verlet). One JSON line is printed, which
benchmarks/waves.py explains; benchmarks/run_acoustic runs all of them, and NGSolve and MFEM with
the same work in turn.
"""

from waves import Method, Physics, lumped, run

import hamfem as hf

SIDES = ("left", "right", "bottom", "top", "back", "front")
METHODS = {
    "cg": Method(hf.cg, hf.Gauss(1), (128, 12), (3, 3)),
    "hdg": Method(hf.hdg, hf.Gauss(1), (96, 8), (3, 3)),
    # at degree 4 on uniform boxes the largest frequency is 19.2 n in 2D and 23.5 n in 3D
    "lumped": Method(lumped, hf.Verlet(), (128, 16), (4, 4), cubes=True, bound=25.0),
    "mixed": Method(hf.mixed, hf.Verlet(), (96, 10), (2, 1)),
}


def wave(domain):
    """A clamped membrane or room."""
    return hf.Acoustic(domain, boundary=[hf.Clamped(*SIDES[: 2 * domain.dim])])


def exact(dim, phase):
    """Its lowest mode."""
    return hf.exact.StandingWave(modes=(1,) * dim, lengths=(1.0,) * dim, phase=phase)


if __name__ == "__main__":
    run(Physics(wave, exact, METHODS))
