# # A cavity with a charge in it: energy, charges and error over 10 000 steps
#
# A box with perfectly conducting walls holds a standing wave and, at rest, the field of a charge:
#
#     E = (sin(pi y) sin(pi z), 0, 0) omega sin(omega t + phase) - grad phi,
#     phi = sin(pi x) sin(pi y) sin(pi z) / 10,   omega = sqrt(2) pi.
#
# The charge div E = -div grad phi must stay where it is, and there must be no magnetic charge:
# these are Casimirs of Maxwell's equations, and each discretization has its own version of them:
#
# | discretization       | fields                        | (D, grad phi_i)   | div B              |
# |----------------------|-------------------------------|-------------------|--------------------|
# | mixed                | E in NED_k, B in RT_k         | constant          | 0 at every point   |
# | dual                 | H in NED_k, D in RT_k         | div D constant    | 0 against grad psi |
# | cg (the potential)   | A and E in NED_k, B = curl A  | constant          | 0 at every point   |
# | hdg                  | A and E in DG_k, H condensed  | constant          | 0 against grad psi |
# | dissipative_hdg      | E and H in DG_k               | constant          | 0 against grad psi |
#
# In the potential form A grows for ever with the charge's field, dA/dt = -E; nothing feels that.
# On hexahedra the masses of edge elements are diagonal, so that explicit steps solve nothing.
# Charges are measured against |D| |grad phi_i|, and div B against |B| / h. The last column is the
# distance from the exact solution in the norm of the energy, the largest of the whole run; after
# hundreds of periods most of it is the phase that has run away, and 2 is the opposite phase.
#
#     docker/run python demos/maxwell_cavity.py
#     docker/run mpirun -n 2 python demos/maxwell_cavity.py --steps 1000 --schemes "mixed, V;hdg"

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

WALLS = ("left", "right", "bottom", "top", "back", "front")
MODE = hf.exact.CavityMode(3)


def static(x: np.ndarray) -> np.ndarray:
    """The field of the charge, -grad phi."""
    a = np.pi
    s, c = np.sin(a * x), np.cos(a * x)
    return -0.1 * a * np.stack([c[0] * s[1] * s[2], s[0] * c[1] * s[2], s[0] * s[1] * c[2]])


def E(t: float):
    """The electric field."""
    return lambda x: MODE.E(t)(x) + static(x)


# ## The schemes


class Scheme(NamedTuple):
    """A discretization, its mesh and its integrator."""

    space: Callable[[hf.Maxwell, int], Any]
    cell: str
    method: Any
    colour: str
    line: str = "-"


def dual(wave: hf.Maxwell, degree: int) -> Any:
    """H and D on edges and faces."""
    return hf.mixed(wave, degree, dual=True)


def lumped(wave: hf.Maxwell, degree: int) -> Any:
    """The potential on hexahedra, with diagonal masses."""
    return hf.cg(wave, degree, lumped=True)


SCHEMES = {
    "mixed, Verlet": Scheme(hf.mixed, "tetrahedron", hf.Verlet(), "C0"),
    "mixed, Gauss(2)": Scheme(hf.mixed, "tetrahedron", hf.Gauss(2), "C0", "--"),
    "mixed on cubes, Verlet": Scheme(hf.mixed, "hexahedron", hf.Verlet(), "C1"),
    "mixed on cubes, PEFRL": Scheme(hf.mixed, "hexahedron", hf.PEFRL(), "C1", "--"),
    "dual, Verlet": Scheme(dual, "tetrahedron", hf.Verlet(), "C2"),
    "dual on cubes, Verlet": Scheme(dual, "hexahedron", hf.Verlet(), "C2", "--"),
    "cg, Gauss(1)": Scheme(hf.cg, "tetrahedron", hf.Gauss(1), "C3"),
    "cg on cubes, Verlet": Scheme(lumped, "hexahedron", hf.Verlet(), "C3", "--"),
    "hdg, Gauss(1)": Scheme(hf.hdg, "tetrahedron", hf.Gauss(1), "C4"),
    "hdg, Gauss(2)": Scheme(hf.hdg, "tetrahedron", hf.Gauss(2), "C4", "--"),
    "dissipative_hdg, Gauss(1)": Scheme(hf.dissipative_hdg, "tetrahedron", hf.Gauss(1), "C5"),
}


# ## A run


class Run(NamedTuple):
    """What was measured along a run, each relative to its own scale."""

    unknowns: int
    dt: float
    seconds: float
    charge: float
    t: np.ndarray
    energy: np.ndarray
    modified: np.ndarray
    electric: np.ndarray
    magnetic: np.ndarray
    error: np.ndarray


def march(scheme: Scheme, comm: MPI.Comm, n: int, degree: int, steps: int, looks: int) -> Run:
    """March one scheme and measure."""
    cells = n if scheme.cell == "tetrahedron" else n + 1
    domain = hf.box(comm, (0, 0, 0), (1, 1, 1), cells, scheme.cell)
    system = scheme.space(hf.Maxwell(domain, boundary=[hf.Clamped(*WALLS)]), degree)
    method = scheme.method
    dt = min(0.8 * method.stable_dt(system), 0.05)
    state = system.state(E=E(0), A=MODE.A(0))
    # What a scheme of higher order than Verlet's conserves has no closed form.
    closed = isinstance(method, hf.RungeKutta) or len(method.kicks) == 2
    modified = hf.modified_energy(system, method, dt) if closed else lambda state: np.nan
    energy0, modified0 = system.energy(state), modified(state)
    charge = system.charges(state)["total_charge"]
    # Of a charge against each test function the scale is |D|, of one at every point |D| / h.
    size = np.sqrt(2 * energy0)
    electric_size = size * cells if scheme.space is dual else size
    magnetic_size = size * cells if scheme.space in (hf.mixed, hf.cg, lumped) else size
    rows = []

    def look(state: hf.State) -> None:
        found = system.charges(state)
        apart = system.state(E=E(state.t), A=MODE.A(state.t))
        apart.q.axpy(-1.0, state.q)
        apart.v.axpy(-1.0, state.v)
        rows.append((
            state.t, system.energy(state) / energy0 - 1, modified(state) / modified0 - 1,
            found["electric_charge"] / electric_size, found["magnetic_charge"] / magnetic_size,
            np.sqrt(2 * system.energy(apart)) / size,
        ))  # fmt: skip

    look(state)
    seconds, began = 0.0, perf_counter()
    for state in hf.march(system, method, state, dt, steps * dt, every=max(1, steps // looks)):
        seconds += perf_counter() - began
        look(state)
        began = perf_counter()
    columns = np.abs(np.array(rows)).T
    return Run(state.q.size + state.v.size, dt, seconds, charge, *columns)


def draw(runs: dict[str, Run], title: str, path: Path) -> None:
    """Energy, charges and error over time."""
    figure, axes = plt.subplots(2, 2, figsize=(14, 9.5), layout="constrained")
    figure.suptitle(title)
    panels = (
        ("energy", "energy: largest |change| (thin: the modified energy of Verlet)", 1e-11),
        ("electric", "electric charges: largest change", 1e-12),
        ("magnetic", "magnetic charge: largest", 1e-12),
        ("error", "distance from the exact solution", None),
    )
    for axis, (quantity, name, promise) in zip(axes.flat, panels):
        for label, run in runs.items():
            scheme = SCHEMES[label]
            style = {"color": scheme.colour, "ls": scheme.line, "lw": 1.3}
            values = getattr(run, quantity)
            if quantity != "error":
                values = np.maximum.accumulate(np.maximum(values, 1e-17))
            axis.semilogy(run.t[1:], values[1:], label=label, **style)
            if quantity == "energy" and "Verlet" in label:
                values = np.maximum.accumulate(np.maximum(run.modified, 1e-17))
                axis.semilogy(run.t[1:], values[1:], color=scheme.colour, ls=scheme.line, lw=0.5)
        if promise:
            axis.axhline(promise, color="0.3", lw=0.8)
            axis.text(0, 1.3 * promise, "what hamfem promises", color="0.3", fontsize="small")
        axis.set(title=name, xlabel="t")
        axis.grid(alpha=0.3)
    for axis in axes[0, 1], axes[1, 0]:
        axis.set_ylim(1e-17, 1e-11)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize="small")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(
    n: Annotated[int, typer.Option(help="Tetrahedra: 6 n³; one more hexahedron a side.")] = 2,
    degree: Annotated[int, typer.Option(help="Of all spaces.")] = 2,
    steps: Annotated[int, typer.Option(help="Steps of each run.")] = 10_000,
    looks: Annotated[int, typer.Option(help="How often to measure.")] = 50,
    schemes: Annotated[str, typer.Option(help="Some of them, by their beginnings: mixed;hdg")] = "",
    output: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("results"),
) -> None:
    """A standing wave and a charge in a cavity, by all discretizations."""
    comm = MPI.COMM_WORLD
    wanted = tuple(name.strip() for name in schemes.split(";")) if schemes else ("",)
    chosen = [name for name in SCHEMES if name.startswith(wanted)]
    if not chosen:
        raise typer.BadParameter(f"no scheme begins so: choose from {'; '.join(SCHEMES)}.")
    if comm.rank == 0:
        output.mkdir(parents=True, exist_ok=True)
    comm.barrier()
    runs = {}
    for name in chosen:
        if comm.rank == 0:
            print(f"marching {name}", flush=True)
        runs[name] = march(SCHEMES[name], comm, n, degree, steps, looks)
    if comm.rank > 0:
        return
    print(f"\n{steps} steps; changes are the largest of the run, each in its own scale")
    print(f"{'scheme':26s} {'unknowns':>8s} {'dt':>7s} {'energy':>9s} {'modified':>9s}", end="")
    print(f" {'charge':>11s} {'electric':>9s} {'magnetic':>9s} {'error':>9s} {'seconds':>7s}")
    for name, run in runs.items():
        print(f"{name:26s} {run.unknowns:8d} {run.dt:7.4f} {run.energy.max():9.2e}", end="")
        modified = "-" if np.isnan(run.modified[0]) else f"{run.modified.max():.1e}"
        print(f" {modified:>9s} {run.charge:11.8f} {run.electric.max():9.1e}", end="")
        print(f" {run.magnetic.max():9.1e} {run.error.max():9.2e} {run.seconds:7.1f}")
    picture = output / "maxwell_cavity.png"
    draw(runs, f"A standing wave and a charge in a cavity, {steps} steps", picture)
    print(f"picture: {picture}")


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    app()
