# # A cantilever: eigenfrequencies against beam theory, and locking
#
# A slender beam is clamped at its left end. Its first two bending modes are excited by an initial
# velocity, the velocity of the tip is recorded, and the frequencies in this record are found by
# Prony's method (a matrix pencil). Two theories predict them: Euler and Bernoulli's, and
# Timoshenko's, which knows that a beam also shears and that its slices turn; with the shear
# coefficient 5 (1 + nu) / (6 + 5 nu) of plane stress it is right to 0.1 % here.
#
# Two materials: one with nu = 0.3 in plane stress, and rubber with nu = 0.4999 in plane strain,
# where theory takes E/(1 - nu²) and nu/(1 - nu). There, continuous elements of degree 1 lock: their
# displacements cannot be nearly incompressible without being stiff, and the frequencies come out
# far too large, the first by a factor of nine. Mixed and HDG methods do not lock. (Rubber that is
# clamped cannot thicken at the wall, which makes the beam a little stiffer than theory: 0.5 %
# remain on fine meshes.)
#
#     docker/run python demos/elastic_beam.py
#     docker/run mpirun -n 2 python demos/elastic_beam.py --n 2 --methods mixed-1,hdg-1

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
from dolfinx import fem, geometry
from scipy.optimize import brentq

import hamfem as hf

LENGTH, HEIGHT, E = 10.0, 0.5, 1.0
SPACES = {"cg": hf.cg, "mixed": hf.mixed, "hdg": hf.hdg}
METHODS = "cg-1,cg-2,mixed-1,hdg-1"
ROOTS = (1.8751040687, 4.6940911330)  # of cos(x) cosh(x) = -1
COLOURS = [f"C{i}" for i in range(10)]


class Material(NamedTuple):
    """Poisson's ratio, in plane stress or plane strain; Young's modulus and the density are 1."""

    nu: float
    plane: str

    @property
    def effective(self) -> tuple[float, float]:
        """Young's modulus and Poisson's ratio of the sheet that bends like this material."""
        if self.plane == "stress":
            return E, self.nu
        return E / (1 - self.nu**2), self.nu / (1 - self.nu)

    def __str__(self) -> str:
        return f"nu = {self.nu:g}, plane {self.plane}"


# ## Theory


def euler_bernoulli(material: Material) -> np.ndarray:
    """The first two angular frequencies of a beam that bends only."""
    stiffness = material.effective[0] * HEIGHT**2 / 12
    return np.array([(x / LENGTH) ** 2 * np.sqrt(stiffness) for x in ROOTS])


def timoshenko(material: Material) -> np.ndarray:
    """The same of a beam that shears too, and whose slices have inertia.

    With deflection w and slope p, and modes exp(k x): G' (w'' - p') + omega² w = 0 and
    E I/A p'' + G' (w' - p) + I/A omega² p = 0, G' = kappa G. At a frequency the four boundary
    conditions have a determinant of zero: w = p = 0 at the wall, p' = w' - p = 0 at the tip.
    """
    young, nu = material.effective
    shear = 5 * (1 + nu) / (6 + 5 * nu) * young / (2 * (1 + nu))
    slices = HEIGHT**2 / 12

    def determinant(omega: float) -> float:
        square = omega**2
        # k^4 + b k² + c = 0
        b = square / shear + square / young
        c = square / shear * (square / young) - square / (young * slices)
        k = np.sqrt(np.roots([1, b, c]).astype(complex))
        k = np.concatenate([k, -k])
        p = (k * k + square / shear) / k  # for w = 1
        tip = np.exp(k * LENGTH)
        # Columns scaled to 1 at their larger end keep the determinant of order one.
        rows = np.array([np.ones(4), p, k * p * tip, (k - p) * tip])
        rows /= np.maximum(1, np.abs(tip))
        value = np.linalg.det(rows)
        # Conjugate or opposite columns: the determinant is real or imaginary.
        return float(value.real + value.imag)

    return np.array([
        brentq(determinant, 0.8 * omega, 1.02 * omega, xtol=1e-14)
        for omega in euler_bernoulli(material)
    ])  # fmt: skip


def kick(x: np.ndarray) -> np.ndarray:
    """The initial velocity: the first two modes of Euler and Bernoulli, whose slices turn along."""
    deflection, slope = np.zeros_like(x[0]), np.zeros_like(x[0])
    for root in ROOTS:
        s = root * x[0] / LENGTH
        ratio = (np.cosh(root) + np.cos(root)) / (np.sinh(root) + np.sin(root))
        deflection += (np.cosh(s) - np.cos(s) - ratio * (np.sinh(s) - np.sin(s))) / 2
        slope += (np.sinh(s) + np.sin(s) - ratio * (np.cosh(s) - np.cos(s))) / 2 * root / LENGTH
    return np.stack([-(x[1] - HEIGHT / 2) * slope, deflection])


# ## Measurement


class Tip:
    """The vertical velocity at the middle of the free end; where it is is found once."""

    def __init__(self, domain: hf.Domain) -> None:
        mesh, self.comm = domain.mesh, domain.comm
        self.point = np.array([[LENGTH, 0.3 * HEIGHT, 0.0]])
        tree = geometry.bb_tree(mesh, domain.dim, padding=1e-9)
        near = geometry.compute_collisions_points(tree, self.point)
        cells = geometry.compute_colliding_cells(mesh, near, self.point).links(0)
        self.cells = cells[cells < mesh.topology.index_map(domain.dim).size_local][:1]
        self.root = min(r for r, n in enumerate(self.comm.allgather(len(self.cells))) if n)

    def __call__(self, v: fem.Function) -> float:
        """The value, on every rank."""
        value = None
        if self.comm.rank == self.root:
            value = float(v.eval(self.point, self.cells).ravel()[1])
        return self.comm.bcast(value, self.root)


def prony(values: np.ndarray, dt: float) -> tuple[np.ndarray, np.ndarray]:
    """Angular frequencies and heights of the undamped oscillations in a record, the largest first.

    The matrix pencil: rows of a Hankel matrix are combinations of exp(i omega dt j); the shift
    between its first and last columns has these numbers as eigenvalues.
    """
    width = len(values) // 3
    hankel = np.lib.stride_tricks.sliding_window_view(values, width)
    _, s, vh = np.linalg.svd(hankel, full_matrices=False)
    rank = min(int(np.sum(s > 1e-6 * s[0])), 24)
    basis = vh[:rank].T
    shift = np.linalg.lstsq(basis[:-1], basis[1:], rcond=None)[0]
    numbers = np.linalg.eigvals(shift)
    omega = np.abs(np.angle(numbers[numbers.imag > 0])) / dt
    t = dt * np.arange(len(values))
    waves = np.concatenate([np.cos(np.outer(t, omega)), np.sin(np.outer(t, omega))], axis=1)
    weights = np.linalg.lstsq(waves, values, rcond=None)[0].reshape(2, -1)
    heights = np.hypot(*weights)
    order = np.argsort(-heights)
    return omega[order], heights[order]


class Record(NamedTuple):
    """What is kept of a method."""

    t: np.ndarray
    tip: np.ndarray
    omega: np.ndarray
    unknowns: int
    seconds: float


def swing(name: str, material: Material, n: int, periods: float, samples: int) -> Record:
    """Excite the beam, record its tip and find the first two frequencies."""
    began = perf_counter()
    comm = MPI.COMM_WORLD
    space, degree = name.split("-")
    domain = hf.box(comm, (0, 0), (LENGTH, HEIGHT), n=(round(n * LENGTH / HEIGHT / 2), n))
    wave = hf.Elastic.from_young(
        domain, E=E, nu=material.nu, plane=material.plane, boundary=[hf.Clamped("left")]
    )
    system, method = SPACES[space](wave, int(degree)), hf.Gauss(2)
    # Projected, all methods start with the same velocity, and the beam at rest.
    state = system.state(u=0, v=kick, start="projection")
    first, second = euler_bernoulli(material)
    # A beam that locks is faster than theory: the step is short enough for that.
    dt, t_end = 2 * np.pi / second / samples, periods * 2 * np.pi / first
    tip = Tip(domain)
    rows = [(0.0, tip(system.fields(state)["v"]))]
    with hf.Progress(t_end, system, file=sys.stdout) as progress:
        for state in hf.march(system, method, state, dt, t_end):
            rows.append((state.t, tip(system.fields(state)["v"])))
            progress(state)
    t, values = np.array(rows).T
    omega, _ = prony(values, t[1] - t[0])
    unknowns = state.q.size + state.v.size
    return Record(t, values, np.sort(omega[:2]), unknowns, perf_counter() - began)


# ## Picture


def draw(results: dict[Material, dict[str, Record]], title: str, path: Path) -> None:
    """The tip, its spectrum, and the frequencies relative to Timoshenko's, for each material."""
    figure, axes = plt.subplots(len(results), 3, figsize=(16, 4 * len(results) + 0.5),
                                squeeze=False, layout="constrained")  # fmt: skip
    figure.suptitle(title)
    for row, (material, records) in zip(axes, results.items()):
        theory, euler = timoshenko(material), euler_bernoulli(material)
        period = 2 * np.pi / theory[0]
        for i, (name, record) in enumerate(records.items()):
            # Curves that lie on each other are seen by their widths.
            style = {"color": COLOURS[i % 10], "lw": (1.0, 3.4, 2.0, 0.8)[i % 4], "label": name}
            shown = record.t < 1.5 * period
            row[0].plot(record.t[shown] / period, record.tip[shown], **style)
            window = np.hanning(len(record.tip))
            spectrum = np.abs(np.fft.rfft(window * record.tip, 8 * len(window)))
            omega = 2 * np.pi * np.fft.rfftfreq(8 * len(window), record.t[1] - record.t[0])
            row[1].plot(omega / theory[0], spectrum / spectrum.max(), **style)
        for omega in theory / theory[0]:
            row[1].axvline(omega, color="0.3", lw=0.8, ls=":")
        row[0].set(title=f"{material}: the tip", xlabel="t / first period", ylabel="velocity")
        row[1].set(title="spectrum", xlabel="omega / first of Timoshenko", xlim=(0, 14))
        bars = {"Euler-Bernoulli": euler, **{n: r.omega for n, r in records.items()}}
        place = np.arange(len(bars))
        for mode, side in ((0, -0.2), (1, 0.2)):
            errors = [100 * abs(omega[mode] / theory[mode] - 1) for omega in bars.values()]
            row[2].bar(place + side, np.maximum(errors, 1e-4), 0.38, label=f"mode {mode + 1}",
                       color=("0.35", "0.7")[mode])  # fmt: skip
        row[2].set_xticks(place, list(bars))
        row[2].set(title="distance to Timoshenko's frequency in %", yscale="log", ylim=(1e-3, 1e3))
        row[2].axhline(0.5, color="tab:red", lw=0.8)
        row[2].legend(loc="upper right")
        row[2].grid(axis="y", alpha=0.3)
        row[1].legend(loc="upper right")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(
    n: Annotated[int, typer.Option(help="Cells over the height of the beam.")] = 4,
    nu: Annotated[float, typer.Option(help="Poisson's ratio of the first material.")] = 0.3,
    rubber: Annotated[float, typer.Option(help="That of the second; 0 leaves it out.")] = 0.4999,
    periods: Annotated[float, typer.Option(help="Length of the record, in first periods.")] = 2.5,
    samples: Annotated[int, typer.Option(help="Steps in a period of the second mode.")] = 24,
    methods: Annotated[str, typer.Option(help="space-degree, with commas.")] = METHODS,
    output: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("results"),
) -> None:
    """Measure the first bending frequencies of a cantilever and compare them with theory."""
    comm = MPI.COMM_WORLD
    names = [name.strip() for name in methods.split(",")]
    for name in names:
        space, _, degree = name.partition("-")
        if space not in SPACES or not degree.isdigit():
            raise typer.BadParameter(f"{name!r} is no method: write cg-1, mixed-1 or hdg-1.")
    if comm.rank == 0:
        output.mkdir(parents=True, exist_ok=True)
    comm.barrier()

    materials = [Material(nu, "stress"), *([Material(rubber, "strain")] if rubber else [])]
    results: dict[Material, dict[str, Record]] = {}
    for material in materials:
        results[material] = {}
        for name in names:
            if comm.rank == 0:
                print(f"marching {name}, {material}", flush=True)
            results[material][name] = swing(name, material, n, periods, samples)

    if comm.rank != 0:
        return
    title = f"a cantilever of {LENGTH:g} x {HEIGHT:g}, {n} cells over its height"
    print(f"\n{title}")
    for material, records in results.items():
        theory = timoshenko(material)
        euler = euler_bernoulli(material)
        rows = {"Timoshenko": (theory, 0, 0.0), "Euler-Bernoulli": (euler, 0, 0.0)}
        rows |= {name: (r.omega, r.unknowns, r.seconds) for name, r in records.items()}
        print(f"{material!s:28s} {'omega 1':>10s} {'error':>9s} {'omega 2':>10s}", end="")
        print(f" {'error':>9s} {'unknowns':>8s} {'seconds':>7s}")
        for name, (omega, unknowns, seconds) in rows.items():
            errors = 100 * (omega / theory - 1)
            print(f"  {name:26s} {omega[0]:10.6f} {errors[0]:+8.2f}% {omega[1]:10.6f}", end="")
            print(f" {errors[1]:+8.2f}%", f"{unknowns:8d} {seconds:7.1f}" if unknowns else "")
    picture = output / "elastic_beam.png"
    draw(results, title, picture)
    print(f"picture: {picture}")


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    app()
