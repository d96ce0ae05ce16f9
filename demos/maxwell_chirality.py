# # Optical chirality that is exactly conserved
#
# Besides energy and charges light conserves its handedness, the optical chirality
#
#     chi = 1/2 integral of eps E.curl E + B.curl H       (Lipkin 1964).
#
# Finite elements do not know it: theirs is tracked, and wanders with the error of the method. On a
# uniform periodic grid the Yee scheme has one of its own, with the field moved by half the diagonal
# of a cell, T, where the curl is to be multiplied with it:
#
#     chi_h = 1/2 (eps v'T curl v + mu q'T'curl'q),   constant in exact time.
#
# Gauss methods keep it to round-off. Störmer-Verlet keeps, exactly, what is left of it when half a
# kick is taken back:
#
#     chi_h(v, q) - dt²/4 chi_h(a, 0),    a = M^-1 B q  the rate of v,
#
# so that chi_h itself swings by O(dt²) and never drifts.
#
# A circularly polarised pulse runs round a periodic box: with the wave numbers m = 1 ... 7
#
#     E = Re sum a_m (0, 1, i) exp(i k_m (x - t)),   k_m = 2 pi m / 4,
#
# the chirality of each wave is k_m times its energy. Finite elements on tetrahedra are a crystal:
# both polarisations of a wave run with slightly different speeds there, so that after a long time
# its handedness is another one.
#
#     docker/run python demos/maxwell_chirality.py
#     docker/run mpirun -n 2 python demos/maxwell_chirality.py --steps 10000

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

LENGTH, WIDTH = 4.0, 0.25
PAIRS = [hf.Periodic("left", "right"), hf.Periodic("bottom", "top"), hf.Periodic("back", "front")]

# ## The pulse


class Pulse:
    """A sum of circularly polarised plane waves along x, in vacuum."""

    def __init__(self) -> None:
        m = np.arange(1, 8)
        self.k = 2 * np.pi * m / LENGTH
        self.amplitude = np.exp(-(((m - 4) / 1.5) ** 2)) * np.exp(-1j * self.k * LENGTH / 2)

    def _sum(self, factors: np.ndarray, x: np.ndarray) -> np.ndarray:
        """(0, Re f, -Im f) with f the sum of factors exp(i k x)."""
        f = (factors[:, None] * np.exp(1j * self.k[:, None] * x[0])).sum(axis=0)
        return np.stack([0 * x[0], f.real, -f.imag])

    def E(self, x: np.ndarray) -> np.ndarray:
        """At t = 0."""
        return self._sum(self.amplitude, x)

    def A(self, x: np.ndarray) -> np.ndarray:
        """The potential, dA/dt = -E."""
        return self._sum(self.amplitude / (1j * self.k), x)

    @property
    def chirality(self) -> float:
        """K |a|² of each wave, whose mean of (|E|² + |B|²)/2 is |a|², times the volume."""
        return float((self.k * np.abs(self.amplitude) ** 2).sum() * LENGTH * WIDTH**2)


# ## The schemes


class Scheme(NamedTuple):
    """A discretization, its mesh and its integrator."""

    space: Callable[[hf.Maxwell], Any]
    cell: str
    cells: tuple[int, int, int]
    method: Any
    colour: str


SCHEMES = {
    "Yee, Verlet": Scheme(hf.yee, "hexahedron", (64, 4, 4), hf.Verlet(), "C0"),
    "Yee, Gauss(1)": Scheme(hf.yee, "hexahedron", (32, 2, 2), hf.Gauss(1), "C2"),
    "mixed, Verlet": Scheme(
        lambda wave: hf.mixed(wave, 2), "tetrahedron", (16, 1, 1), hf.Verlet(), "C3"
    ),
    "mixed on cubes, Verlet": Scheme(
        lambda wave: hf.mixed(wave, 1), "hexahedron", (32, 2, 2), hf.Verlet(), "C1"
    ),
}


class Run(NamedTuple):
    """What was measured along a run; changes are relative."""

    unknowns: int
    dt: float
    seconds: float
    first: float
    t: np.ndarray
    chirality: np.ndarray
    modified: np.ndarray
    energy: np.ndarray
    charge: np.ndarray


def march(scheme: Scheme, comm: MPI.Comm, steps: int, looks: int) -> Run:
    """March one scheme and measure."""
    domain = hf.box(comm, (0, 0, 0), (LENGTH, WIDTH, WIDTH), scheme.cells, scheme.cell)
    system, pulse = scheme.space(hf.Maxwell(domain, boundary=PAIRS)), Pulse()
    method = scheme.method
    dt = min(0.5 * method.stable_dt(system), 0.02)
    state = system.state(E=pulse.E, A=pulse.A)
    energy = hf.modified_energy(system, method, dt)
    exact = scheme.space is hf.yee and isinstance(method, hf.Partitioned)
    force, rate = system.new_v(), system.new_v()
    at_rest = hf.State(system.new_q(), rate)
    rows = []

    def look(state: hf.State) -> None:
        found = system.invariants(state)
        chirality = modified = found["optical_chirality"]
        if exact:
            system.restoring(state.q, force)
            system.mass_solve(force, rate)
            modified -= dt**2 / 4 * system.invariants(at_rest)["optical_chirality"]
        charge = found["electric_charge"] / np.sqrt(2 * found["energy"])
        rows.append((state.t, chirality, modified, energy(state), charge))

    look(state)
    seconds, began = 0.0, perf_counter()
    for state in hf.march(system, method, state, dt, steps * dt, every=max(1, steps // looks)):
        seconds += perf_counter() - began
        look(state)
        began = perf_counter()
    t, chirality, modified, energies, charge = np.array(rows).T
    changes = [np.abs(x / x[0] - 1) for x in (chirality, modified, energies)]
    return Run(state.q.size + state.v.size, dt, seconds, chirality[0], t, *changes, charge)


# ## Pictures


def draw(runs: dict[str, Run], steps: int, path: Path) -> None:
    """The pulse, and what became of its chirality and its energy."""
    figure, axes = plt.subplots(1, 3, figsize=(17, 5.2), layout="constrained")
    x = np.linspace(0, LENGTH, 400)
    E = Pulse().E(np.stack([x, 0 * x, 0 * x]))
    axes[0].plot(x, E[1], label="$E_y$")
    axes[0].plot(x, E[2], label="$E_z$")
    axes[0].plot(x, np.hypot(E[1], E[2]), color="0.5", ls=":", label="$|E|$")
    axes[0].set(title="the pulse, as it starts", xlabel="x")
    axes[0].legend()
    for name, run in runs.items():
        colour = SCHEMES[name].colour
        for axis, values in ((axes[1], run.chirality), (axes[2], run.energy)):
            shown = np.maximum.accumulate(np.maximum(values, 1e-17))
            axis.loglog(run.t[1:], shown[1:], color=colour, label=name)
        if np.any(run.modified != run.chirality):
            shown = np.maximum.accumulate(np.maximum(run.modified, 1e-17))
            axes[1].loglog(
                run.t[1:], shown[1:], color=colour, ls="--", label=f"{name}, what it keeps exactly"
            )
    axes[1].set(title="optical chirality: largest |change| so far", xlabel="t", ylim=(1e-17, 1))
    axes[2].set(title="energy (of Verlet, the modified one)", xlabel="t", ylim=(1e-17, 1))
    axes[1].legend(fontsize="small")
    for axis in axes:
        axis.grid(alpha=0.3)
    figure.suptitle(f"A circularly polarised pulse, {steps} steps")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(
    steps: Annotated[int, typer.Option(help="Steps of each run.")] = 100_000,
    looks: Annotated[int, typer.Option(help="How often to measure.")] = 200,
    schemes: Annotated[str, typer.Option(help="Some of them, by their beginnings.")] = "",
    output: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("results"),
) -> None:
    """The optical chirality of a pulse, by the Yee scheme and by finite elements."""
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
        runs[name] = march(SCHEMES[name], comm, steps, looks)
    if comm.rank > 0:
        return
    print(f"\n{steps} steps; chirality {Pulse().chirality:.6f} of the exact pulse; changes are the "
          "largest of the run, relative")  # fmt: skip
    print(f"{'scheme':22s} {'unknowns':>8s} {'dt':>7s} {'chirality':>11s} {'change':>9s}", end="")
    print(f" {'modified':>9s} {'energy':>9s} {'charge':>9s} {'seconds':>7s}")
    for name, run in runs.items():
        print(f"{name:22s} {run.unknowns:8d} {run.dt:7.4f} {run.first:11.6f}", end="")
        print(f" {run.chirality.max():9.1e} {run.modified.max():9.1e}", end="")
        print(f" {run.energy.max():9.1e} {run.charge.max():9.1e} {run.seconds:7.1f}")
    picture = output / "maxwell_chirality.png"
    draw(runs, steps, picture)
    print(f"picture: {picture}")


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    app()
