# # A pulse and an obstacle: six schemes, three of them symplectic
#
# A plane pulse of sound, u_0 = exp(-(x - 4)²/(2 · 0.2²)) with v_0 = du_0/dx, runs to the left, hits
# an obstacle at t = 1.5 and the wall behind it at t = 4, and comes back. All walls are free, so
# that energy and linear momentum are conserved. It is the example of section 5.5 of Cockburn, Du
# and Sánchez, Combining finite element space-discretizations with symplectic time-marching schemes
# for linear Hamiltonian systems (2023), with its six schemes:
#
# | scheme     | space                     | time                                             |
# |------------|---------------------------|--------------------------------------------------|
# | CG-symp    | continuous elements       | implicit midpoint rule, symplectic               |
# | CG-diss    | continuous elements       | SDIRK3, a Runge-Kutta method that damps          |
# | Mixed-symp | Raviart-Thomas            | Störmer-Verlet, symplectic and explicit          |
# | Mixed-diss | Raviart-Thomas            | SDIRK3                                           |
# | HDG-symp   | Hamiltonian HDG           | implicit midpoint rule                           |
# | HDG-diss   | HDG, damped by its jumps  | implicit midpoint rule: the damping is in space  |
#
# The midpoint rule conserves the energy to round-off; with Störmer-Verlet it oscillates and
# returns; all others lose it for good. All six conserve the linear momentum. The pseudomomentum
# int rho v q is no invariant: obstacle and walls change it.
#
# HDG-symp has specks of the size of the cells, and neither a smaller dt nor another start removes
# them. They depend on tau: at t = 2 the relative error of v in L2 is 0.02 for tau = 0.1, 0.09 for
# tau = 1 and 0.01 for tau = 10. Perhaps the pulse drives the jumps of u, which nothing damps.
#
# The source does not say how large its domain is, nor where the obstacle, what the mesh and the
# time step are. Here the domain is (0,6) x (0,4), without the square [1.5,2.5]² or the disc of
# radius 1/2 around (2,2): pictures and table are called "our geometry", and are to be compared with
# the source in kind only.
#
#     docker/run python demos/acoustic_obstacle.py
#     docker/run mpirun -n 2 python demos/acoustic_obstacle.py --mesh disc --schemes HDG-symp

import sys
from pathlib import Path
from time import perf_counter
from typing import Annotated, NamedTuple

from mpi4py import MPI

import basix
import basix.ufl
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import typer
import ufl
from dolfinx import fem
from matplotlib.tri import Triangulation

import hamfem as hf

MESHES = Path(__file__).resolve().parent.parent / "meshes"
METHODS = {
    "CG-symp": hf.Gauss(1),
    "CG-diss": hf.SDIRK3(),
    "Mixed-symp": hf.Verlet(),
    "Mixed-diss": hf.SDIRK3(),
    "HDG-symp": hf.Gauss(1),
    "HDG-diss": hf.Gauss(1),
}
COLOURS = {"CG": "tab:blue", "Mixed": "tab:orange", "HDG": "tab:green"}
# Curves of CG-diss and Mixed-diss lie on each other: their dashes alternate.
DASHES = {"CG": (0, (4, 4)), "Mixed": (4, (4, 4)), "HDG": (0, (6, 2))}

# ## The schemes
#
# The mixed method starts from the flux of the steady problem, the others from projections in the
# mean square; the flux of both HDG methods is the one that the Hamiltonian method finds from u.


def discretize(wave: hf.Acoustic, scheme: str, degree: int, tau: float):
    """The system of a scheme and its initial state."""
    x = ufl.SpatialCoordinate(wave.domain.mesh)[0]
    u = ufl.exp(-0.5 * (x - 4) ** 2 / 0.2**2)
    v = -25 * (x - 4) * u
    if scheme.startswith("CG"):
        system = hf.cg(wave, degree)
    elif scheme.startswith("Mixed"):
        system = hf.mixed(wave, degree)
    elif scheme == "HDG-symp":
        system = hf.hdg(wave, degree, tau)
    else:
        system = hf.dissipative_hdg(wave, degree, tau)
    start = "steady" if scheme.startswith("Mixed") else "projection"
    return system, system.state(u=u, v=v, start=start)


# ## What is measured


class Pictures:
    """Values of v on a fine lattice in every cell, gathered on rank 0: jumps remain visible."""

    def __init__(self, domain: hf.Domain, degree: int) -> None:
        self.comm = domain.comm
        cell = basix.CellType[domain.cell]
        variant = basix.LagrangeVariant.equispaced
        element = basix.ufl.element("Lagrange", domain.cell, degree, variant, discontinuous=True)
        self.values = fem.Function(fem.functionspace(domain.mesh, element))
        V = self.values.function_space
        self.dofs = V.dofmap.list[: domain.mesh.topology.index_map(domain.dim).size_local]
        nodes = basix.create_element(basix.ElementFamily.P, cell, degree, variant).points
        self.parts = Triangulation(*nodes.T).triangles
        self.x = self._gathered(V.tabulate_dof_coordinates()[:, :2])

    def _gathered(self, values: np.ndarray) -> np.ndarray | None:
        rows = self.comm.gather(values[self.dofs])
        return None if rows is None else np.concatenate(rows)

    def __call__(self, v: fem.Function) -> np.ndarray | None:
        """The values at all points, (cells, points) on rank 0."""
        self.values.interpolate(v)
        return self._gathered(self.values.x.array)

    def triangulation(self) -> Triangulation:
        """All points and small triangles, on rank 0."""
        cells, points = self.x.shape[:2]
        triangles = self.parts + points * np.arange(cells)[:, None, None]
        return Triangulation(*self.x.reshape(-1, 2).T, triangles.reshape(-1, 3))


class Run(NamedTuple):
    """What is kept of a scheme: its history, and snapshots (row of the history, values of v)."""

    history: hf.History
    snapshots: list[tuple[int, np.ndarray | None]]
    seconds: float

    @property
    def energy_loss(self) -> np.ndarray:
        """|energy(0) - energy(t)|."""
        return np.abs(self.history["energy"] - self.history["energy"][0])

    @property
    def momentum_loss(self) -> np.ndarray:
        """The change of the linear momentum int rho v."""
        momentum = self.history["linear_momentum"]
        return np.abs(momentum - momentum[0])

    @property
    def pseudomomentum(self) -> np.ndarray:
        """|int rho v q|."""
        return np.hypot(self.history["pseudomomentum_x"], self.history["pseudomomentum_y"])


# ## Pictures


def draw_snapshots(runs: dict[str, Run], pictures: Pictures, title: str, path: Path) -> None:
    """The velocity, one row for each scheme and one column for each time (Figure 3)."""
    triangulation = pictures.triangulation()
    low, high = pictures.x.min(axis=(0, 1)), pictures.x.max(axis=(0, 1))
    columns = len(next(iter(runs.values())).snapshots)
    height = 2.45 * (high[1] - low[1]) / (high[0] - low[0])
    figure, axes = plt.subplots(
        len(runs),
        columns,
        figsize=(2.6 * columns + 1.4, (height + 0.12) * len(runs) + 0.9),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    figure.suptitle(title)
    for row, (scheme, run) in zip(axes, runs.items()):
        for axis, (i, values) in zip(row, run.snapshots):
            colours = axis.tripcolor(
                triangulation, values.ravel(), shading="gouraud", cmap="RdBu_r", vmin=-3, vmax=3
            )
            axis.set(aspect="equal", xlim=(low[0], high[0]), ylim=(low[1], high[1]))
            axis.set(facecolor="0.6")
            if axis.get_subplotspec().is_first_row():
                axis.set_title(f"t = {run.history['t'][i]:g}")
            axis.tick_params(labelsize=8)
        row[0].set_ylabel(scheme)
    figure.colorbar(colours, ax=axes, label="velocity v", extend="both", shrink=0.5, pad=0.01)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_histories(runs: dict[str, Run], title: str, path: Path) -> None:
    """Losses of energy and linear momentum, and the norm of the pseudomomentum (Figure 4)."""
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.8), layout="constrained")
    figure.suptitle(title)
    for scheme, run in runs.items():
        space, kind = scheme.split("-")
        line = "-" if kind == "symp" else DASHES[space]
        style = {"color": COLOURS[space], "ls": line, "label": scheme}
        t = run.history["t"]
        # Nothing is plotted at t = 0, and zeros stand at the lower edge.
        axes[0].semilogy(t[1:], np.maximum(run.energy_loss, 1e-16)[1:], lw=1.2, **style)
        axes[1].semilogy(t[1:], np.maximum(run.momentum_loss, 1e-18)[1:], lw=0.7, **style)
        axes[2].plot(t, run.pseudomomentum, lw=1.2, **style)
    axes[0].set(title="energy", ylabel="|energy(0) - energy(t)|", ylim=(1e-16, 1))
    top = max(1e-13, *(10 * run.momentum_loss.max() for run in runs.values()))
    axes[1].set(title="linear momentum", ylabel="|momentum(0) - momentum(t)|", ylim=(1e-18, top))
    axes[2].set(title="pseudomomentum", ylabel="|∫ ρ v q|")
    for axis in axes:
        axis.set(xlabel="t")
        axis.grid(alpha=0.3)
    axes[2].legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)


# ## The experiment


def march(
    scheme: str,
    wave: hf.Acoustic,
    pictures: Pictures,
    options: tuple[int, float, float, float, int],
    path: Path,
) -> Run:
    """March one scheme, with five snapshots."""
    degree, tau, dt, t_end, every = options
    began = perf_counter()
    system, state = discretize(wave, scheme, degree, tau)
    method = METHODS[scheme]
    times = list(np.linspace(0, t_end, 5))
    snapshots = []
    with (
        hf.History(path, system, method, dt) as history,
        hf.Progress(t_end, system, file=sys.stdout) as progress,
    ):

        def look() -> None:
            history(state)
            progress(state)
            if times and state.t > times[0] - 1e-9 * t_end:
                snapshots.append((len(history.rows) - 1, pictures(system.fields(state)["v"])))
                while times and state.t > times[0] - 1e-9 * t_end:
                    times.pop(0)

        look()
        for state in hf.march(system, method, state, dt, t_end, every=every):
            look()
    return Run(history, snapshots, perf_counter() - began)


def print_table(runs: dict[str, Run]) -> None:
    """Energies and their losses, scheme by scheme."""
    snapshots = [i for i, _ in next(iter(runs.values())).snapshots[1:]]
    t = next(iter(runs.values())).history["t"]
    print(f"{'':11s} {'':12s} {'|energy(0) - energy(t)| at':^{10 * len(snapshots)}s}")
    heads = (f"{f't = {t[i]:g}':>9s}" for i in snapshots)
    print(f"{'scheme':11s} {'energy(0)':>12s}", *heads, end="")
    print(f" {'largest':>9s} {'decays':>6s} {'momentum':>9s} {'seconds':>7s}")
    for scheme, run in runs.items():
        energy, loss = run.history["energy"], run.energy_loss
        decays = "always" if np.all(np.diff(energy) < 0) else "no"
        print(f"{scheme:11s} {energy[0]:12.8f}", *(f"{loss[i]:9.3e}" for i in snapshots), end="")
        print(f" {loss.max():9.3e} {decays:>6s} {run.momentum_loss.max():9.1e} {run.seconds:7.1f}")


def main(
    mesh: Annotated[str, typer.Option(help="square, disc or the path of a mesh.")] = "square",
    degree: Annotated[int, typer.Option(help="Polynomial degree.")] = 3,
    tau: Annotated[float, typer.Option(help="Stabilisation of the HDG methods.")] = 1.0,
    dt: Annotated[float, typer.Option(help="Time step.")] = 0.01,
    t_end: Annotated[float, typer.Option(help="End time.")] = 8.0,
    every: Annotated[int, typer.Option(help="Steps between two rows of the histories.")] = 4,
    schemes: Annotated[str, typer.Option(help="Some of them, with commas.")] = ",".join(METHODS),
    output: Annotated[
        Path, typer.Option("--output", "--out", help="Folder for pictures and histories.")
    ] = Path("results"),
) -> None:
    """Scatter a pulse at an obstacle with six schemes and compare what they conserve."""
    comm = MPI.COMM_WORLD
    names = [name.strip() for name in schemes.split(",")]
    if unknown := [name for name in names if name not in METHODS]:
        raise typer.BadParameter(f"{unknown[0]!r} is no scheme: choose from {', '.join(METHODS)}.")
    if comm.rank == 0:
        output.mkdir(parents=True, exist_ok=True)
    comm.barrier()

    path = MESHES / f"obstacle_{mesh}.msh" if mesh in ("square", "disc") else Path(mesh)
    domain = hf.read_mesh(comm, path)
    wave = hf.Acoustic(domain)  # rho = kappa = 1 and free walls
    pictures = Pictures(domain, degree + 1)
    cells = domain.mesh.topology.index_map(domain.dim).size_global
    title = f"our geometry ({path.stem}, {cells} cells), degree {degree}, {dt = :g}, {tau = :g}"
    if comm.rank == 0:
        print(f"{title}\nenergy of the pulse in a strip of height 4: {10 * np.sqrt(np.pi):.8f}")

    runs = {}
    options = degree, tau, dt, t_end, every
    for scheme in names:
        if comm.rank == 0:
            print(f"marching {scheme}", flush=True)
        table = output / f"acoustic_obstacle_{scheme}.csv"
        runs[scheme] = march(scheme, wave, pictures, options, table)

    if comm.rank == 0:
        print()
        print_table(runs)
        files = [output / f"acoustic_obstacle_{name}.png" for name in ("snapshots", "histories")]
        draw_snapshots(runs, pictures, title, files[0])
        draw_histories(runs, title, files[1])
        print(f"pictures: {', '.join(map(str, files))}")


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    app()
