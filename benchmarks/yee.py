"""A Verlet step of the Yee scheme, beside the memory's bandwidth and Meep.

docker/run sh -c 'apt-get update && apt-get install -y --no-install-recommends python3-meep &&
    python benchmarks/yee.py'
docker/run mpirun -n 2 python benchmarks/yee.py

A cube of vacuum with conducting walls, in double precision, without output and layers, for both.
A step moves each of the six components of a cell from memory and back, 96 bytes, and 24 more where
eps varies, unless several steps share a pass; the fraction is that of the rate of a copy over as
many bytes, in the same run. Meep's default boundary is the same perfect conductor; it is timed by
the steps that it does, and on one rank only, as the package of Debian has no MPI. Rounds take
turns, and the best one counts, in time of the processor: on a shared machine only ratios of it mean
anything. To reach: half of Meep's time, 0.7 of the bandwidth.
"""

import time
from typing import Annotated, Any

from mpi4py import MPI

import numpy as np
import typer

import hamfem as hf
from benchmarks.timing import memory

COMM = MPI.COMM_WORLD
SIDES = ["left", "right", "bottom", "top", "back", "front"]
BYTES = 96


def seconds(work: Any) -> float:
    """The processor's time for one call, on the slowest rank; waiting for messages is in it."""
    COMM.barrier()
    start = time.process_time()
    work()
    return COMM.allreduce(time.process_time() - start, MPI.MAX)


def ours(n: int, varying: bool, periodic: bool) -> Any:
    """A function that does steps of Verlet."""
    domain = hf.box(COMM, (0, 0, 0), (1, 1, 1), n, "hexahedron")
    pairs = [hf.Periodic(*SIDES[i : i + 2]) for i in (0, 2, 4)]
    walls = pairs if periodic else [hf.Clamped(*SIDES)]
    eps = (lambda x: 1 + 0.5 * np.sin(6 * x[0])) if varying else 1.0
    system, method = hf.yee(hf.Maxwell(domain, eps, boundary=walls)), hf.Verlet()
    state = system.state()
    for x in (state.q, state.v):
        x.array[:] = 1e-3 * np.sin(np.arange(x.local_size))
    # With eps >= 1/2 everywhere; the limit itself takes its time where eps varies.
    advance = method.bind(system, 0.5 / n / np.sqrt(3))
    advance(state, 2)
    return lambda steps: advance(state, steps)


def meeps(n: int, varying: bool) -> Any:
    """A function that does steps of Meep, or None where it is not."""
    try:
        import meep as mp
    except ImportError:
        return None
    mp.verbosity(0)
    source = mp.Source(mp.GaussianSource(1.0, fwidth=1.0), mp.Ez, mp.Vector3(0.1, 0.07, 0.03))
    size = mp.Vector3(1, 1, 1)
    # Half of the cavity is filled: then eps is an array there, too.
    glass = mp.Block(mp.Vector3(0.5, 1, 1), material=mp.Medium(epsilon=2.0))
    simulation = mp.Simulation(
        size, n, geometry=[glass] if varying else [], sources=[source], eps_averaging=False
    )
    simulation.init_sim()

    def steps(count: int) -> None:
        for _ in range(count):
            simulation.fields.step()

    steps(2)
    return steps


def measure(n: int, rounds: int, kinds: list[str]) -> None:
    """Print the lines of one size."""
    tasks: dict[str, Any] = {
        kind: ours(n, kind == "varying eps", kind == "periodic") for kind in kinds
    }
    peers = dict.fromkeys(kinds, "Meep")
    if "varying eps" in kinds:
        peers["varying eps"] = "Meep, varying"
    for name in dict.fromkeys(peers.values()) if COMM.size == 1 else ():
        if steps := meeps(n, "varying" in name):
            tasks[name] = steps
    # As many steps at once as between two looks of a run, at least.
    count = max(16, 4 * (128 // n) ** 3)
    a = np.ones(6 * n**3 // COMM.size)
    b = np.ones_like(a)
    best, copy = dict.fromkeys(tasks, np.inf), np.inf
    for _ in range(rounds):
        copy = min(copy, seconds(lambda: np.copyto(a, b)))
        for name, steps in tasks.items():
            best[name] = min(best[name], seconds(lambda s=steps: s(count)) / count)
    rate = BYTES * n**3 / copy
    rows = []
    for name, t in best.items():
        moved = (BYTES + (24 if "varying" in name else 0)) * n**3
        peer = peers.get(name, name)
        rows.append((name, n**3 / t, moved / t / rate, t / best.get(peer, np.nan)))
    used = memory()
    if COMM.rank == 0:
        print(f"\n{n}^3 cells, {COMM.size} rank(s), copy {rate / 1e9:.1f} GB/s, {used:.0f} MB")
        print(f"{'':14s} {'Mcells/s':>9s} {'of copy':>8s} {'of Meep':>8s}")
        for name, cells, fraction, ratio in rows:
            print(f"{name:14s} {cells / 1e6:9.0f} {fraction:8.2f} {ratio:8.2f}", flush=True)


def main(
    rounds: Annotated[int, typer.Option(help="Rounds; the best one counts.")] = 8,
    largest: Annotated[int, typer.Option(help="The largest number of cells along an axis.")] = 256,
) -> None:
    """Print the tables."""
    if COMM.rank == 0 and COMM.size == 1:
        try:
            import meep  # noqa: F401
        except ImportError:
            print("Meep is not installed, so that nothing stands beside: see the head of the file.")
    for n in (64, 128, 256):
        if n <= largest:
            # Three systems and Meep's would not fit at the largest size.
            measure(n, rounds, ["cavity", "periodic", "varying eps"][: 1 if n > 128 else 3])


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    app()
