"""Elastic waves: one method on one mesh, measured in a process of its own.

docker/run python benchmarks/elastic.py METHOD DIM [--n N] [--degree K] [--steps STEPS] [--profile]

METHOD is cg, hdg or mixed (midpoint rule), lumped or mixed-verlet (Verlet). One JSON line is
printed, which benchmarks/waves.py explains; benchmarks/run_elastic runs all of them, and NGSolve
and MFEM with the same work in turn.
"""

from waves import Method, Physics, lumped, run

import hamfem as hf

METHODS = {
    "cg": Method(hf.cg, hf.Gauss(1), (112, 12), (2, 2)),
    "hdg": Method(hf.hdg, hf.Gauss(1), (64, 6), (2, 2)),
    # at degree 4 on uniform boxes the largest frequency is 29.4 n in 2D and 34.7 n in 3D
    "lumped": Method(lumped, hf.Verlet(), (56, 6), (4, 4), cubes=True, bound=36.0),
    "mixed": Method(hf.mixed, hf.Gauss(1), (48, 5), (1, 1)),
    "mixed-verlet": Method(hf.mixed, hf.Verlet(), (48, 5), (1, 1)),
}


def wave(domain):
    """A free body with lam = mu = rho = 1."""
    return hf.Elastic(domain, lam=1.0, mu=1.0)


def exact(dim, phase):
    """Its mode of pure shear."""
    return hf.exact.LameMode(dim, phase=phase)


if __name__ == "__main__":
    run(Physics(wave, exact, METHODS))
