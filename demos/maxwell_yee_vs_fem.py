# # The Yee scheme beside finite elements: error against work
#
# The same cavity by the finite differences that everybody uses and by every finite element method
# here, on finer and finer meshes: which accuracy costs how much? In a square with conducting walls
# stand a wave and, at rest, the field of a charge:
#
#     H = -8 pi² cos(2 pi x) cos(2 pi y) cos(omega t + phase),   omega = sqrt(8) pi,
#     dE/dt = curl H,   E = ... - grad phi,   phi = sin(pi x) sin(pi y) / 2.
#
# All schemes have the same invariants: the energy, and the charge against each test function. The
# error is the distance from the exact solution in the norm of the energy, between what the scheme
# has and what it would start with at that time: the phase that has run away. It is the largest of
# the last of `periods` periods. The work is the time of the steps alone, without set-up and
# factorisations. So that time does not hide what space can do, spaces of high order take Blanes and
# Moan's method of order 6, or Gauss methods with three stages.
#
#     docker/run python demos/maxwell_yee_vs_fem.py
#     docker/run mpirun -n 2 python demos/maxwell_yee_vs_fem.py --meshes 2

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, NamedTuple

from mpi4py import MPI

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import typer

import hamfem as hf

WALLS = ("left", "right", "bottom", "top")
MODE = hf.exact.CavityMode(2, "TE", modes=(2, 2))
PERIOD = 2 * np.pi / MODE.frequency


def E(t: float):
    """The wave and the field of the charge, -grad phi."""

    def field(x: np.ndarray) -> np.ndarray:
        s, c = np.sin(np.pi * x), np.cos(np.pi * x)
        return MODE.E(t)(x) - 0.5 * np.pi * np.stack([c[0] * s[1], s[0] * c[1]])

    return field


# ## The schemes


class Scheme(NamedTuple):
    """A discretization, its mesh, its integrator, and its cells along a side."""

    space: Callable[[hf.Maxwell], Any]
    cell: str
    method: Any
    cells: tuple[int, ...]
    colour: str
    line: str = "-"


def mixed(degree: int, dual: bool = False) -> Callable[[hf.Maxwell], Any]:
    """E and B, or H and D, in edge and face elements."""
    return lambda wave: hf.mixed(wave, degree, dual=dual)


SIX = hf.BlanesMoan(6)
SCHEMES = {
    "Yee": Scheme(hf.yee, "quadrilateral", hf.Verlet(), (16, 32, 64, 128, 256), "k"),
    "mixed 0, triangles": Scheme(mixed(0), "triangle", hf.Verlet(), (16, 32, 64), "C0", ":"),
    "mixed 1, triangles": Scheme(mixed(1), "triangle", SIX, (6, 12, 24), "C0", "--"),
    "mixed 2, triangles": Scheme(mixed(2), "triangle", SIX, (4, 8, 16), "C0"),
    "mixed 1, squares": Scheme(mixed(1), "quadrilateral", SIX, (8, 16, 32), "C1", "--"),
    "mixed 3, squares": Scheme(mixed(3), "quadrilateral", SIX, (4, 8, 16), "C1"),
    "dual 2, triangles": Scheme(mixed(2, dual=True), "triangle", SIX, (4, 8, 16), "C2"),
    "cg 2, triangles": Scheme(
        lambda wave: hf.cg(wave, 2), "triangle", hf.Gauss(3), (4, 8, 16), "C3"
    ),
    "hdg 2, triangles": Scheme(
        lambda wave: hf.hdg(wave, 2), "triangle", hf.Gauss(3), (4, 8, 16), "C4"
    ),
    "dissipative_hdg 2": Scheme(
        lambda wave: hf.dissipative_hdg(wave, 2), "triangle", hf.Gauss(3), (4, 8, 16), "C5"
    ),
}


# ## A run


class Run(NamedTuple):
    """One scheme on one mesh; energy and charge are relative changes."""

    n: int
    unknowns: int
    steps: int
    seconds: float
    error: float
    energy: float
    charge: float


def march(scheme: Scheme, comm: MPI.Comm, n: int, periods: int) -> Run:
    """March one scheme on one mesh."""
    domain = hf.box(comm, (0, 0), (1, 1), n, scheme.cell)
    wave = hf.Maxwell(domain, polarization="TE", boundary=[hf.Clamped(*WALLS)])
    system, method = scheme.space(wave), scheme.method
    # An implicit step as long as an explicit one of the same order is exact enough.
    dt = min(0.9 * method.stable_dt(system), PERIOD / (3 * n))
    state = system.state(E=E(0), A=MODE.A(0))
    energy0 = system.energy(state)
    size = np.sqrt(2 * energy0)
    # Of a charge at every point, D itself, the scale is |D| / h.
    charge_size = size * n if getattr(system.space, "dual", False) else size
    error = energy = charge = 0.0

    def look(state: hf.State, last: bool) -> None:
        nonlocal error, energy, charge
        energy = max(energy, abs(system.energy(state) / energy0 - 1))
        charge = max(charge, system.charges(state)["electric_charge"] / charge_size)
        if last:
            apart = system.state(E=E(state.t), A=MODE.A(state.t))
            apart.q.axpy(-1.0, state.q)
            apart.v.axpy(-1.0, state.v)
            error = max(error, np.sqrt(2 * system.energy(apart)) / size)

    look(state, False)
    rates = []  # seconds a step; the first ones of a march have factorisations in them
    for looks, end in ((4, periods - 1), (8, periods)):
        span = end * PERIOD - state.t
        every = max(1, int(np.ceil(span / dt)) // looks)
        began, step = perf_counter(), state.step
        for state in hf.march(system, method, state, dt, end * PERIOD, every=every):
            rates.append((perf_counter() - began) / (state.step - step))
            look(state, end == periods)
            began, step = perf_counter(), state.step
    unknowns, seconds = state.q.size + state.v.size, state.step * float(np.median(rates))
    return Run(n, unknowns, state.step, seconds, error, energy, charge)


def draw(runs: dict[str, list[Run]], periods: int, path: Path) -> None:
    """Error against work, and the invariants."""
    figure, axes = plt.subplots(1, 3, figsize=(17, 6.2), layout="constrained")
    figure.suptitle(f"A cavity over {periods} periods")
    for label, found in runs.items():
        scheme = SCHEMES[label]
        style = {"color": scheme.colour, "ls": scheme.line, "marker": "o", "ms": 4}
        seconds, errors = [r.seconds for r in found], [r.error for r in found]
        axes[0].loglog(seconds, errors, label=label, **style)
        axes[1].loglog([r.unknowns for r in found], errors, **style)
        style["ls"] = "none"
        axes[2].loglog([r.unknowns for r in found], [max(r.charge, 1e-17) for r in found],
                       **style)  # fmt: skip
        style.update(marker="x")
        axes[2].loglog([r.unknowns for r in found], [max(r.energy, 1e-17) for r in found],
                       **style)  # fmt: skip
    axes[0].set(title="error against the time of the steps", xlabel="seconds", ylabel="error")
    axes[1].set(title="error against unknowns", xlabel="unknowns")
    axes[2].set(title="largest change: of a charge (o), of the energy (x)", xlabel="unknowns")
    for axis in axes:
        axis.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=5)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(
    periods: Annotated[int, typer.Option(help="How long, at least 2.")] = 10,
    meshes: Annotated[int, typer.Option(help="How many of the meshes, the coarsest first.")] = 5,
    schemes: Annotated[str, typer.Option(help="Some of them, by their beginnings.")] = "",
    output: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("results"),
) -> None:
    """A cavity by the Yee scheme and by all finite element methods."""
    comm = MPI.COMM_WORLD
    wanted = tuple(name.strip() for name in schemes.split(";")) if schemes else ("",)
    chosen = [name for name in SCHEMES if name.startswith(wanted)]
    if not chosen:
        raise typer.BadParameter(f"no scheme begins so: choose from {'; '.join(SCHEMES)}.")
    if comm.rank == 0:
        output.mkdir(parents=True, exist_ok=True)
        print(f"{'scheme':20s} {'n':>4s} {'unknowns':>8s} {'steps':>6s} {'seconds':>8s}", end="")
        print(f" {'error':>9s} {'order':>5s} {'energy':>8s} {'charge':>8s}")
    comm.barrier()
    runs: dict[str, list[Run]] = {}
    for name in chosen:
        runs[name] = []
        for n in SCHEMES[name].cells[:meshes]:
            run = march(SCHEMES[name], comm, n, periods)
            order = np.nan
            if runs[name]:
                before = runs[name][-1]
                order = np.log(before.error / run.error) / np.log(n / before.n)
            runs[name].append(run)
            if comm.rank == 0:
                print(f"{name:20s} {n:4d} {run.unknowns:8d} {run.steps:6d} {run.seconds:8.3f}"
                      f" {run.error:9.2e} {order:5.2f} {run.energy:8.1e} {run.charge:8.1e}",
                      flush=True)  # fmt: skip
    if comm.rank == 0:
        picture = output / "maxwell_yee_vs_fem.png"
        draw(runs, periods, picture)
        print(f"picture: {picture}")


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    app()
