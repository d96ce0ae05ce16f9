# # A hammer that flies: energy, linear and angular momentum over 10 000 steps
#
# An elastic bar with a heavy head is thrown: it flies, spins and vibrates, and nothing holds it.
# Its energy and its linear and angular momentum are constants of the motion (of the linear theory,
# in which a rotation is the field omega x (x - centre) on the body at rest). Every discretization
# of hamfem has all rigid motions among its velocities, so that every Runge-Kutta and every
# partitioned method conserves both momenta; the energy is a matter of the method:
#
# | method                                   | energy                                              |
# |------------------------------------------|-----------------------------------------------------|
# | Gauss, symplectic DIRK                   | conserved to round-off                              |
# | Störmer-Verlet                           | oscillates and returns; a modified one is conserved |
# | SDIRK3                                   | lost in time                                        |
# | dissipative HDG, with whichever method   | lost in space, at the jumps between cells           |
#
# The momenta w'Mv are measured against |w|_M |v|_M, w being the translations and the rotations
# about the origin. Printed are the largest changes in the whole run.
#
#     docker/run python demos/elastic_momentum.py
#     docker/run mpirun -n 2 python demos/elastic_momentum.py --steps 1000 --space hdg

import sys
from pathlib import Path
from time import perf_counter
from typing import Annotated, NamedTuple

from mpi4py import MPI

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import typer

import hamfem as hf

SPACES = {
    "cg": lambda wave: hf.cg(wave, 2),
    "mixed": lambda wave: hf.mixed(wave, 0),
    "hdg": lambda wave: hf.hdg(wave, 1),
    "dissipative_hdg": lambda wave: hf.dissipative_hdg(wave, 1),
}
METHODS = {
    "cg": {
        "Gauss(1)": hf.Gauss(1),
        "Gauss(2)": hf.Gauss(2),
        "DIRK(4)": hf.SymplecticDIRK(4),
        "Verlet": hf.Verlet(),
        "SDIRK3": hf.SDIRK3(),
    },
    "mixed": {"Gauss(1)": hf.Gauss(1), "DIRK(4)": hf.SymplecticDIRK(4), "Verlet": hf.Verlet()},
    "hdg": {"Gauss(1)": hf.Gauss(1), "Gauss(2)": hf.Gauss(2), "DIRK(4)": hf.SymplecticDIRK(4)},
    "dissipative_hdg": {"Gauss(1)": hf.Gauss(1)},
}
COLOURS = {"cg": "C0", "mixed": "C1", "hdg": "C2", "dissipative_hdg": "C3"}
LINES = {"Gauss(1)": "-", "Gauss(2)": "--", "DIRK(4)": "-.", "Verlet": ":", "SDIRK3": (0, (6, 2))}

# ## The body and its throw
#
# The head is the quarter at the left and four times as dense. The velocity is a translation, a
# rotation about the middle, and waves of stretching, bending and shear.


def hammer(comm: MPI.Comm, n: int) -> hf.Elastic:
    """A bar of 2 x 1 x 0.6 with a heavy head, of tetrahedra."""
    domain = hf.box(comm, (0, 0, 0), (2, 1, 0.6), n=(4 * n, 2 * n, n), cell="tetrahedron")
    domain = domain.name_region("head", lambda x: x[0] < 0.5 + 1e-9)
    domain = domain.name_region("handle", lambda x: x[0] > 0.5 - 1e-9)
    return hf.Elastic.from_young(domain, density={"head": 4.0, "handle": 1.0}, E=2.5, nu=0.25)


def throw(x: np.ndarray) -> np.ndarray:
    """The initial velocity."""
    centre = np.array([[1.0], [0.5], [0.3]])
    flight = np.array([[0.4], [0.3], [-0.2]])
    spin = np.cross([0.3, -0.2, 0.5], (x - centre).T).T
    stretch, shear = np.cos(np.pi * x[0] / 2), np.cos(np.pi * x[1])
    return flight + spin + np.stack([0.3 * stretch, 0.2 * stretch**2, 0.2 * shear * x[0]])


def scales(system, state: hf.State) -> dict[str, np.ndarray]:
    """|w|_M |v|_M for the translations and the rotations w."""
    product = system.new_v()
    speed = np.sqrt(2 * system.kinetic(state))

    def norm(motion) -> float:
        w = system.space.motion(motion, system.new_v)
        system.mass(w, product)
        return speed * np.sqrt(w.dot(product))

    motions = system.space.wave.motions
    return {name: np.array([norm(w) for w in fields]) for name, fields in motions.items()}


# ## The runs


class Run(NamedTuple):
    """The relative changes along a run."""

    t: np.ndarray
    energy0: float
    energy: np.ndarray
    modified: np.ndarray | None
    linear: np.ndarray
    angular: np.ndarray
    seconds: float


def march(system, method, dt: float, steps: int, every: int, path: Path) -> Run:
    """March one scheme and measure what it conserves."""
    began = perf_counter()
    # Projected, it is the same velocity for all, as far as their polynomials allow.
    state = system.state(u=0, v=throw, start="projection")
    size = scales(system, state)
    t_end = steps * dt
    extra = {}
    if isinstance(method, hf.Partitioned):
        extra["modified_energy"] = hf.modified_energy(system, method, dt)
    with (
        hf.History(path, system, method, dt, extra) as history,
        hf.Progress(t_end, system, file=sys.stdout) as progress,
    ):
        for monitor in (history, progress):
            monitor(state)
        for state in hf.march(system, method, state, dt, t_end, every=every):
            history(state)
            progress(state)

    def change(name: str) -> np.ndarray:
        columns = np.stack([history[f"{name}_{axis}"] for axis in "xyz"])
        return (np.abs(columns - columns[:, :1]) / size[name][:, None]).max(axis=0)

    energy = {name: np.abs(history[name] / history[name][0] - 1) for name in ("energy", *extra)}
    return Run(
        history["t"],
        history["energy"][0],
        energy["energy"],
        energy.get("modified_energy"),
        change("linear_momentum"),
        change("angular_momentum"),
        perf_counter() - began,
    )


def draw(runs: dict[tuple[str, str], Run], title: str, path: Path) -> None:
    """The largest changes so far of energy, linear and angular momentum."""
    figure, axes = plt.subplots(1, 3, figsize=(16, 5.8), layout="constrained")
    figure.suptitle(f"{title}: largest relative change so far")

    def line(axis, t: np.ndarray, change: np.ndarray, **style) -> None:
        largest = np.maximum.accumulate(np.maximum(change, 1e-16))
        axis.semilogy(t[1:], largest[1:], lw=1.3, **style)

    for (space, name), run in runs.items():
        style = {"color": COLOURS[space], "ls": LINES[name], "label": f"{space}, {name}"}
        for axis, change in zip(axes, (run.energy, run.linear, run.angular)):
            line(axis, run.t, change, **style)
        if run.modified is not None:
            style.update(label=f"{space}, {name}: modified energy", ls=(0, (1, 4)))
            line(axes[0], run.t, run.modified, **style)
    names = ("energy", "linear momentum", "angular momentum")
    labels = ("|E(t) / E(0) - 1|", *2 * ("|w'M (v(t) - v(0))| / (|w| |v|)",))
    for axis, name, label, limit in zip(axes, names, labels, (1e-11, 1e-13, 1e-13)):
        axis.axhline(limit, color="0.3", lw=0.8)
        axis.text(0, 1.2 * limit, "what hamfem promises", color="0.3", fontsize="small")
        axis.set(title=name, xlabel="t", ylabel=label)
        axis.grid(alpha=0.3)
    axes[0].set_ylim(5e-17, 2)
    for axis in axes[1:]:
        axis.set_ylim(5e-17, 1e-12)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize="small")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(
    n: Annotated[int, typer.Option(help="Cells across the bar; 48 n³ in all.")] = 1,
    dt: Annotated[float, typer.Option(help="Time step.")] = 0.02,
    steps: Annotated[int, typer.Option(help="Steps of each run.")] = 10_000,
    every: Annotated[int, typer.Option(help="Steps between two rows of the histories.")] = 20,
    space: Annotated[str, typer.Option(help="Some of them, with commas.")] = ",".join(SPACES),
    output: Annotated[Path, typer.Option(help="Folder for picture and tables.")] = Path("results"),
) -> None:
    """Throw an elastic body and compare what the methods conserve."""
    comm = MPI.COMM_WORLD
    spaces = [name.strip() for name in space.split(",")]
    if unknown := [name for name in spaces if name not in SPACES]:
        raise typer.BadParameter(f"{unknown[0]!r} is no space: choose from {', '.join(SPACES)}.")
    if comm.rank == 0:
        output.mkdir(parents=True, exist_ok=True)
    comm.barrier()

    wave = hammer(comm, n)
    cells = wave.domain.mesh.topology.index_map(3).size_global
    title = f"a free hammer of {cells} tetrahedra, {steps} steps of {dt:g}"
    runs, sizes = {}, {}
    for name in spaces:
        system = SPACES[name](wave)
        sizes[name] = system.new_q().size + system.new_v().size
        for label, method in METHODS[name].items():
            if comm.rank == 0:
                print(f"marching {name}, {label}", flush=True)
            file = label.replace("(", "").replace(")", "")
            path = output / f"elastic_momentum_{name}_{file}.csv"
            runs[name, label] = march(system, method, dt, steps, every, path)

    if comm.rank == 0:
        print(f"\n{title}; changes are relative and the largest of the run")
        print(f"{'space':15s} {'method':8s} {'unknowns':>8s} {'energy(0)':>12s}", end="")
        print(f" {'energy':>9s} {'modified':>9s} {'linear':>9s} {'angular':>9s} {'seconds':>7s}")
        for (name, label), run in runs.items():
            modified = f"{run.modified.max():9.1e}" if run.modified is not None else f"{'':9s}"
            print(f"{name:15s} {label:8s} {sizes[name]:8d} {run.energy0:12.8f}", end="")
            print(f" {run.energy.max():9.2e} {modified} {run.linear.max():9.1e}", end="")
            print(f" {run.angular.max():9.1e} {run.seconds:7.1f}")
        picture = output / "elastic_momentum.png"
        draw(runs, title, picture)
        print(f"picture: {picture}")


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    app()
