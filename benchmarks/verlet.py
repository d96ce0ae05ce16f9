"""One step of Störmer-Verlet against its bare matrix-vector product, in the same run.

docker/run python benchmarks/verlet.py

Printed are the best times of several rounds; only the ratios mean anything on a shared machine.
To reach: a ratio of 2.0 with 3 entries per row and 10^6 unknowns, of 1.25 with 27 entries per row,
and 30 microseconds of overhead with 100 unknowns.
"""

from typing import Annotated

import numpy as np
import scipy.sparse as sp
import typer
from timing import COMM, best

import hamfem as hf

STEPS = 50


def chain(n: int) -> sp.csr_matrix:
    """Masses on a line: 3 entries per row."""
    return sp.diags([2.0, -1.0, -1.0], [0, -1, 1], shape=(n, n), format="csr")


def block(n: int) -> sp.csr_matrix:
    """Masses on a cubic grid of n³ with all 26 neighbours: 27 entries per row."""
    one, mass = chain(n), sp.diags([4.0, 1.0, 1.0], [0, -1, 1], shape=(n, n), format="csr") / 6
    terms = ((one, mass, mass), (mass, one, mass), (mass, mass, one))
    return sum(sp.kron(sp.kron(a, b), c, format="csr") for a, b, c in terms)


def measure(name: str, K: sp.csr_matrix, rounds: int) -> None:
    """Time products and steps in turn, and print their ratio."""
    n = K.shape[0]
    system = hf.SecondOrder(sp.diags([np.linspace(1, 2, n)], [0], format="csr"), K)
    rng = np.random.default_rng(1)
    state = system.state(rng.normal(size=n), rng.normal(size=n))
    x, y = state.q.copy(), state.q.duplicate()
    dt = 0.1
    advance = hf.Verlet().bind(system, dt)

    def products() -> None:
        for _ in range(STEPS):
            system.K.mult(x, y)

    def single() -> None:
        for _ in range(STEPS):
            advance(state, 1)

    product, merged, yielded = np.inf, np.inf, np.inf
    for _ in range(rounds):  # in turn, so that all see the same machine
        product = min(product, best(products, 2) / STEPS)
        merged = min(merged, best(lambda: advance(state, STEPS), 2) / STEPS)
        yielded = min(yielded, best(single, 2) / STEPS)
    if COMM.rank == 0:
        print(
            f"{name:24s} {n:9d} {1e6 * product:12.2f} {1e6 * merged:12.2f} {merged / product:7.2f}"
            f" {yielded / product:14.2f} {1e6 * (merged - product):14.2f}",
            flush=True,
        )


def main(
    rounds: Annotated[int, typer.Option(help="Rounds; the best one counts.")] = 10,
) -> None:
    """Print the table."""
    if COMM.rank == 0:
        print(
            f"{'system':24s} {'unknowns':>9s} {'product, µs':>12s} {'step, µs':>12s} {'ratio':>7s}"
            f" {'every step':>14s} {'overhead, µs':>14s}"
        )
    measure("chain", chain(100), 100 * rounds)
    measure("chain", chain(10**6), rounds)
    measure("grid, 27 per row", block(60), rounds)


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    app()
