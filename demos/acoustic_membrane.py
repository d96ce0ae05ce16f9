# # A membrane: energy that does not drift
#
# A square membrane, clamped at its rim, swings in the mode
# u = sin(2 pi x) sin(pi y) cos(omega t + 0.3). Continuous elements in space; in time
# Störmer-Verlet, explicit, whose energy oscillates but does not drift, and the implicit midpoint
# rule (Gauss with one stage), which conserves the energy to round-off. Both are of second order,
# and both errors against the exact solution are printed; a PNG shows the field and the energies.
#
#     docker/run python demos/acoustic_membrane.py
#     docker/run mpirun -n 2 python demos/acoustic_membrane.py --n 64 --end 20

from pathlib import Path
from typing import Annotated

from mpi4py import MPI

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import typer
import ufl
from dolfinx import fem

import hamfem as hf

METHODS = {"Störmer-Verlet": hf.Verlet(), "implicit midpoint": hf.Gauss(1)}


def l2_norm(f: ufl.core.expr.Expr, comm: MPI.Comm) -> float:
    """The norm of f in L2, summed over all ranks."""
    return float(np.sqrt(comm.allreduce(fem.assemble_scalar(fem.form(f**2 * ufl.dx)))))


def nodal_values(u: fem.Function, comm: MPI.Comm) -> np.ndarray | None:
    """Rows (x, y, u) of all nodes on rank 0, for a picture."""
    owned = u.function_space.dofmap.index_map.size_local
    x = u.function_space.tabulate_dof_coordinates()[:owned, :2]
    rows = comm.gather(np.column_stack([x, u.x.array[:owned]]))
    return None if rows is None else np.vstack(rows)


def draw(picture: np.ndarray, histories: dict[str, np.ndarray], path: Path) -> None:
    """The final field, and the relative change of the energy of each method."""
    figure, axes = plt.subplots(1, 3, figsize=(14, 4), layout="constrained")
    colours = axes[0].tripcolor(*picture.T, shading="gouraud", cmap="RdBu_r", vmin=-1, vmax=1)
    axes[0].set(title="u at the end (implicit midpoint)", xlabel="x", ylabel="y", aspect="equal")
    figure.colorbar(colours, ax=axes[0])
    for axis, (name, history) in zip(axes[1:], histories.items()):
        t, energy = history.T
        axis.plot(t, energy / energy[0] - 1, lw=0.8)
        axis.set(title=name, xlabel="t", ylabel="energy / energy(0) - 1")
        axis.yaxis.set_major_formatter("{x:.0e}")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(
    n: Annotated[int, typer.Option(help="Squares per side; each is cut into two triangles.")] = 24,
    degree: Annotated[int, typer.Option(help="Polynomial degree.")] = 3,
    dt: Annotated[float, typer.Option(help="Time step.")] = 0.002,
    end: Annotated[float, typer.Option(help="End time.")] = 5.0,
    output: Annotated[Path, typer.Option(help="Directory for the picture.")] = Path("results"),
) -> None:
    """March a membrane with two symplectic methods and compare them with the exact solution."""
    comm = MPI.COMM_WORLD
    domain = hf.box(comm, (0, 0), (1, 1), n=(n, n))
    wave = hf.Acoustic(domain, boundary=[hf.Clamped("left", "right", "bottom", "top")])
    system = hf.cg(wave, degree)
    exact = hf.exact.StandingWave(modes=(2, 1))
    if comm.rank == 0:
        print(f"{system.M.size[0]} unknowns, degree {degree}, dt = {dt}, {end / dt:.0f} steps")
        print(f"{'method':18} {'energy(0)':>14s} {'energy(end)':>14s} {'drift':>9s} {'error':>16s}")

    histories, u = {}, None
    for name, method in METHODS.items():
        state = system.state(u=exact.u(0), v=exact.v(0))
        rows = [(state.t, system.energy(state))]
        for state in hf.march(system, method, state, dt, end, every=5):
            rows.append((state.t, system.energy(state)))
        histories[name] = history = np.array(rows)

        u = system.fields(state)["u"]
        fine = fem.functionspace(domain.mesh, ("Lagrange", degree + 2))
        reference = fem.Function(fine)
        reference.interpolate(exact.u(state.t))
        error = l2_norm(u - reference, comm) / l2_norm(reference, comm)
        energy = history[:, 1]
        drift = np.abs(energy / energy[0] - 1).max()
        if comm.rank == 0:
            print(f"{name:18s} {energy[0]:14.10f} {energy[-1]:14.10f} {drift:9.1e} {error:16.9e}")

    picture = nodal_values(u, comm)
    if comm.rank == 0:
        output.mkdir(parents=True, exist_ok=True)
        draw(picture, histories, output / "acoustic_membrane.png")
        print(f"picture: {output / 'acoustic_membrane.png'}")


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    app()
