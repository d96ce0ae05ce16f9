# # Lamb's problem: a tap on a half-space, and its seismograms
#
# A vertical force strikes the surface of an elastic half-space (Lamb 1904), here in two dimensions
# and in plane strain. Three waves run along the surface: P at 1.732, S at 1, and the Rayleigh wave
# at 0.9194, the root of its equation; it keeps its height, while the others fade like x^(-3/2).
# The half-space is a box whose top is free; through its other sides waves leave (hf.Impedance).
# The force is a narrow Gaussian, and a Ricker pulse in time. Units: rho = c_S = 1, and the dominant
# frequency is 1.
#
# Far from a point force Q f(t), the Rayleigh wave moves the surface horizontally by
# H Q/mu f(t - x/c_R) towards the source: a copy of the force, with H = 1/8 if lam = mu. The force
# of this demo is not a point; what its width takes away is known in closed form, so that seismogram
# and theory can be laid over each other without a free parameter.
#
# Printed are the speeds of the Rayleigh and P pulses between two stations, by correlation, when
# they arrive, and the difference between the Rayleigh pulse and Lamb's. (The P pulse still changes
# its shape between the two stations, which correlation takes for 1 % of its speed; finer meshes do
# not change that.) Written are the seismograms (CSV), a section of them with the arrivals, and
# snapshots of |v|, in which the head wave between P and S is seen too.
#
#     docker/run python demos/elastic_lamb.py
#     docker/run mpirun -n 2 python demos/elastic_lamb.py --space hdg --h 0.4

import sys
from pathlib import Path
from time import perf_counter
from typing import Annotated

from mpi4py import MPI

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import typer
from scipy.optimize import brentq
from scipy.special import erfcx

import hamfem as hf

SPACES = {"cg": hf.cg, "mixed": hf.mixed, "hdg": hf.hdg}
C_P, C_S, MU = 3**0.5, 1.0, 1.0
SOURCE, WIDTH, DEPTH, SIGMA = 3.0, 16.0, 6.0, 0.1
DELAY = 1.25  # of the Ricker pulse's peak
OFFSETS = np.arange(1.0, 11.5, 0.5)
COLOURS = {"P": "tab:green", "S": "tab:orange", "Rayleigh": "tab:red"}

# ## Theory


def rayleigh_function(k: float) -> float:
    """Lamb's F(k) at omega = 1: its zero is 1/c_R."""
    a, b = (np.sqrt(k * k - 1 / c**2) for c in (C_P, C_S))
    return float((2 * k * k - 1 / C_S**2) ** 2 - 4 * k * k * a * b)


def rayleigh() -> tuple[float, float]:
    """The speed of Rayleigh waves and Lamb's H, the height of their horizontal displacement."""
    k = brentq(rayleigh_function, (1 + 1e-9) / C_S, 3 / C_S, xtol=1e-14)
    slope = (rayleigh_function(k + 1e-6) - rayleigh_function(k - 1e-6)) / 2e-6
    a, b = (np.sqrt(k * k - 1 / c**2) for c in (C_P, C_S))
    return 1 / k, -k * (2 * k * k - 1 / C_S**2 - 2 * a * b) / slope


def ricker(t):
    """The force as a function of time, for numbers and arrays."""
    s = (np.pi * (t - DELAY)) ** 2
    return (1 - 2 * s) * np.exp(-s)


def lamb_pulse(t: np.ndarray, offset: float) -> np.ndarray:
    """The horizontal velocity of the Rayleigh wave at a station, for the Gaussian force.

    Of a wave of wave number k, the width of the force along the surface leaves exp(-(k sigma)²/2);
    its depth leaves the mean of the wave's own vertical displacement, by reciprocity.
    """
    speed, height = rayleigh()
    step, n = 0.005, 1 << 14
    fine = step * np.arange(n)
    omega = 2 * np.pi * np.fft.rfftfreq(n, step)
    k = omega / speed
    a, b = (np.sqrt(1 - (speed / c) ** 2) for c in (C_P, C_S))
    means = [erfcx(p * k * SIGMA / np.sqrt(2)) for p in (a, b)]
    deep = (2 * means[1] - (1 + b * b) * means[0]) / (1 - b * b)
    pulse = np.fft.rfft(ricker(fine)) * 1j * omega * np.exp(-((k * SIGMA) ** 2) / 2) * deep
    pulse *= -height / MU * np.exp(-1j * k * offset)
    return np.interp(t, fine, np.fft.irfft(pulse, n))


# ## Measurements


def windowed(t: np.ndarray, trace: np.ndarray, arrival: float, half: float) -> np.ndarray:
    """The trace around the time at which a pulse should arrive, with smooth ends."""
    s = (t - arrival - DELAY) / half
    return np.where(np.abs(s) < 1, trace * np.cos(np.pi * s / 2) ** 2, 0.0)


def delay(first: np.ndarray, second: np.ndarray, dt: float) -> float:
    """By how much the second pulse comes later: the maximum of the correlation, interpolated."""
    n = 16 * 2 * len(first)  # 16 times finer than the samples
    spectrum = np.conj(np.fft.rfft(first, 2 * len(first))) * np.fft.rfft(second, 2 * len(first))
    correlation = np.fft.irfft(spectrum, n)
    i = int(np.argmax(correlation))
    left, middle, right = correlation[i - 1], correlation[i], correlation[(i + 1) % n]
    shift = i + 0.5 * (left - right) / (left - 2 * middle + right)
    return float((shift if i < n // 2 else shift - n) * dt / 16)


def report(t: np.ndarray, traces: np.ndarray) -> None:
    """Speeds and arrivals of the pulses, and the Rayleigh pulse against Lamb's."""
    dt = t[1] - t[0]
    speeds = {"Rayleigh": rayleigh()[0], "P": C_P}
    if t[-1] < 10.0 / speeds["Rayleigh"] + 2 * DELAY:
        print("the run ends before the Rayleigh pulse has passed offset 10: nothing is measured")
        return
    print(f"{'pulse':10s} {'between':>11s} {'speed':>8s} {'theory':>8s} {'error':>8s}")
    near, far = np.searchsorted(OFFSETS, (5.0, 10.0))
    for name, half in (("Rayleigh", 1.25), ("P", 1.0)):
        pulses = [
            windowed(t, traces[:, i, 0], OFFSETS[i] / speeds[name], half) for i in (near, far)
        ]
        speed = (OFFSETS[far] - OFFSETS[near]) / delay(*pulses, dt)
        error = speed / speeds[name] - 1
        print(f"{name:10s} {OFFSETS[near]:4g} and {OFFSETS[far]:2g} ", end="")
        print(f"{speed:8.4f} {speeds[name]:8.4f} {100 * error:+7.2f}%")
    x = OFFSETS[far]
    theory = lamb_pulse(t, x)
    pulse = windowed(t, traces[:, far, 0], x / speeds["Rayleigh"], 1.25)
    expected = windowed(t, theory, x / speeds["Rayleigh"], 1.25)
    arrival = x / speeds["Rayleigh"] + delay(expected, pulse, dt)
    print(f"Rayleigh wave at offset {x:g}: arrives after {arrival:.4f}, ", end="")
    print(f"theory {x / speeds['Rayleigh']:.4f}")
    error = np.linalg.norm(pulse - expected) / np.linalg.norm(expected)
    height = np.abs(pulse).max() / np.abs(expected).max()
    print(f"Rayleigh pulse against Lamb's: height {height:.4f}, difference {100 * error:.2f} %")
    # The first motion: 5 % of the largest velocity before S comes.
    x = OFFSETS[near]
    early = np.abs(traces[:, near, 0]) * (t < x / C_S + DELAY - 1.0)
    first, peak = t[np.argmax(early > 0.05 * early.max())], t[np.argmax(early)]
    print(f"P wave at offset {x:g}: first motion at {first:.2f}, peak at {peak:.2f}; ", end="")
    print(f"theory: not before {x / C_P:.2f}, peak at {x / C_P + DELAY:.2f}")


# ## Pictures


def draw_section(t: np.ndarray, traces: np.ndarray, title: str, path: Path) -> None:
    """Seismograms over offset with the arrivals, and the last Rayleigh pulse with Lamb's."""
    figure, axes = plt.subplots(1, 3, figsize=(16, 6.4), layout="constrained")
    figure.suptitle(title)
    speeds = {"P": C_P, "S": C_S, "Rayleigh": rayleigh()[0]}
    for axis, component, name in zip(axes, (0, 1), ("horizontal", "vertical")):
        scale = 0.55 / np.abs(traces[:, -1, component]).max()
        for offset, trace in zip(OFFSETS, traces[:, :, component].T):
            axis.plot(offset + np.clip(scale * trace, -1.1, 1.1), t, color="black", lw=0.7)
        for wave, speed in speeds.items():
            line = np.array([0, OFFSETS[-1] + 0.5])
            style = {"color": COLOURS[wave], "label": f"{wave}, {speed:.4g}"}
            axis.plot(line, line / speed + DELAY, lw=1.4, alpha=0.8, **style)
        axis.set(title=f"{name} velocity", xlabel="offset", xlim=(0, OFFSETS[-1] + 0.7))
        axis.set(ylabel="t", ylim=(t[-1], 0))
    axes[0].legend(title="peak of the force, at speed", loc="lower left")
    offset = 10.0
    i = int(np.searchsorted(OFFSETS, offset))
    axes[2].plot(t, traces[:, i, 0], color="black", lw=1.2, label="computed")
    axes[2].plot(t, lamb_pulse(t, offset), color=COLOURS["Rayleigh"], ls="--", label="Lamb's pulse")
    for wave, speed in speeds.items():
        arrival = offset / speed + DELAY
        if arrival > t[-1]:
            continue
        axes[2].axvline(arrival, color=COLOURS[wave], lw=0.8)
        axes[2].text(arrival, 0.99, f" {wave[0]}", color=COLOURS[wave], va="top",
                     transform=axes[2].get_xaxis_transform())  # fmt: skip
    axes[2].set(title=f"horizontal velocity at offset {offset:g}", xlabel="t")
    axes[2].set_xlim(min(offset / C_P - 0.5, 0.5 * t[-1]), t[-1])
    axes[2].legend(loc="lower left")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_snapshots(snapshots: list[tuple[float, np.ndarray]], title: str, path: Path) -> None:
    """|v| in the half-space at a few times, with the fronts of P and S and the Rayleigh wave."""
    rows = (len(snapshots) + 1) // 2
    figure, axes = plt.subplots(rows, 2, figsize=(14, 2.75 * rows + 0.5), layout="constrained")
    figure.suptitle(title)
    angle = np.linspace(0, np.pi, 200)
    top = 0.6 * max(np.percentile(speed, 99.7) for _, speed in snapshots)
    for axis, (t, speed) in zip(axes.flat, snapshots):
        extent = (-SOURCE, WIDTH - SOURCE, -DEPTH, 0)
        image = axis.imshow(
            speed, extent=extent, origin="lower", cmap="magma_r", vmin=0, vmax=top, aspect="equal"
        )
        for wave, c in (("P", C_P), ("S", C_S)):
            r = c * max(t - DELAY, 0)
            front = r * np.cos(angle), -r * np.sin(angle)
            axis.plot(*front, color=COLOURS[wave], lw=0.9, label=wave)
        r = rayleigh()[0] * max(t - DELAY, 0)
        heads = [x for x in (-r, r) if extent[0] < x < extent[1]]
        axis.plot(heads, np.zeros(len(heads)), "v", color=COLOURS["Rayleigh"], clip_on=False,
                  label="Rayleigh")  # fmt: skip
        axis.set(xlim=extent[:2], ylim=extent[2:], title=f"t = {t:.3g}", xlabel="x", ylabel="y")
    axes.flat[0].legend(loc="lower right")
    for axis in axes.flat[len(snapshots) :]:
        axis.set_visible(False)
    figure.colorbar(image, ax=axes, label="|v|", extend="max", shrink=0.6)
    figure.savefig(path, dpi=110)
    plt.close(figure)


# ## The experiment


def half_space(comm: MPI.Comm, h: float, cell: str) -> hf.Elastic:
    """The box, the force and the sides through which waves leave."""
    n = (round(WIDTH / h), round(DEPTH / h))
    domain = hf.box(comm, (0, -DEPTH), (WIDTH, 0), n=n, cell=cell)

    def push(x: np.ndarray) -> np.ndarray:
        # Half of the Gaussian lies in the body: the force on it is 1, downwards.
        r2 = (x[0] - SOURCE) ** 2 + x[1] ** 2
        density = np.exp(-r2 / (2 * SIGMA**2)) / (np.pi * SIGMA**2)
        return np.stack([np.zeros_like(density), -density])

    return hf.Elastic.from_speeds(
        domain,
        p=C_P,
        s=C_S,
        boundary=[hf.Free("top"), hf.Impedance("left", "right", "bottom")],
        sources=[hf.Source(push, ricker)],
    )


def main(
    space: Annotated[str, typer.Option(help="cg, mixed or hdg.")] = "cg",
    degree: Annotated[int, typer.Option(help="Polynomial degree.")] = 4,
    h: Annotated[float, typer.Option(help="Length of the cells.")] = 0.25,
    dt: Annotated[float, typer.Option(help="Time step.")] = 0.05,
    t_end: Annotated[float, typer.Option(help="End time.")] = 14.0,
    output: Annotated[Path, typer.Option(help="Folder for pictures and CSV.")] = Path("results"),
) -> None:
    """Strike a half-space and compare its seismograms with theory."""
    comm = MPI.COMM_WORLD
    if space not in SPACES:
        raise typer.BadParameter(f"{space!r} is no space: choose from {', '.join(SPACES)}.")
    if comm.rank == 0:
        output.mkdir(parents=True, exist_ok=True)
    comm.barrier()

    began = perf_counter()
    wave = half_space(comm, h, "quadrilateral" if space == "cg" else "triangle")
    system, method = SPACES[space](wave, degree), hf.Gauss(2)
    state = system.state(u=0, v=0)
    unknowns = state.q.size + state.v.size
    title = f"Lamb's problem: {space}, degree {degree}, h = {h:g}, {unknowns} unknowns, {dt = :g}"
    if comm.rank == 0:
        print(title, flush=True)

    line = np.stack([SOURCE + OFFSETS, np.zeros_like(OFFSETS)], axis=1)
    files = [output / f"elastic_lamb{name}" for name in (".csv", ".png", "_snapshots.png")]
    stations = hf.Receivers(files[0], system, line, names="v")
    x, y = np.meshgrid(np.linspace(0, WIDTH, 321), np.linspace(-DEPTH, 0, 121))
    grid = hf.Probe(wave.domain, np.stack([x.ravel(), y.ravel()], axis=1))
    times = list(np.linspace(0, t_end, 7)[1:-2])
    snapshots = []
    stations(state)
    with hf.Progress(t_end, system, file=sys.stdout) as progress:
        for state in hf.march(system, method, state, dt, t_end):
            stations(state)
            if times and state.t > times[0] - 1e-9:
                times.pop(0)
                speed = np.linalg.norm(grid(system.fields(state, "v")["v"]), axis=1)
                snapshots.append((state.t, speed.reshape(x.shape)))
            progress(state)
    seconds = perf_counter() - began

    if comm.rank == 0:
        t = stations["t"]
        traces = stations.rows[:, 2:].reshape(len(t), len(OFFSETS), 2)  # after step and t
        report(t, traces)
        draw_section(t, traces, title, files[1])
        draw_snapshots(snapshots, title, files[2])
        print(f"{seconds:.1f} seconds; files: {', '.join(map(str, files))}")


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    app()
