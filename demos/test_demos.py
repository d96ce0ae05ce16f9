"""Every demo runs, on one rank and on two, and its numbers are pinned."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hamfem as hf

DEMOS = Path(__file__).parent
pytestmark = pytest.mark.serial


def run(demo, output, ranks, *options):
    mpirun = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
    command = [*mpirun, sys.executable, str(DEMOS / demo), "--output", str(output), *options]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""  # no warnings, of MPI or of anybody
    return result.stdout


def numbers(row, text):
    """The numbers of the first line that begins with `row`."""
    line = next(line for line in text.splitlines() if line.strip().startswith(row))
    return [float(x) for x in re.findall(r"(?<![\w.])[-+]?\d+\.?\d*(?:e[-+]?\d+)?", line)]


def pictures(*paths):
    for path in paths:
        assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_every_demo_is_tested():
    text = Path(__file__).read_text()
    for demo in DEMOS.rglob("*.py"):
        if not demo.name.startswith("test_"):
            assert f'"{demo.relative_to(DEMOS)}"' in text, f"{demo.name} has no test"


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_acoustic_membrane(ranks, tmp_path):
    text = run("acoustic_membrane.py", tmp_path, ranks)
    number = r"\s+([-+.\de]+)"
    rows = {
        name: [float(x) for x in re.search(name + 4 * number, text).groups()]
        for name in ("Störmer-Verlet", "implicit midpoint")
    }
    # energy(0), energy(end) and error, the same on every number of ranks to 10 digits
    expected = {
        "Störmer-Verlet": (6.1685026849, 6.1683523832, 3.463564238e-04),
        "implicit midpoint": (6.1685026849, 6.1685026849, 6.796822448e-04),
    }
    for name, (start, end, drift, error) in rows.items():
        assert (start, end, error) == pytest.approx(expected[name], rel=2e-10)
        # omega dt = 0.014: Verlet's energy oscillates by O(dt²), the midpoint rule's by round-off
        assert 1e-6 < drift < 1e-4 if name == "Störmer-Verlet" else drift < 1e-12
    pictures(tmp_path / "acoustic_membrane.png")


@pytest.mark.parametrize(("ranks", "end"), [(1, 2.0), (2, 0.2)])
def test_acoustic_obstacle(ranks, end, tmp_path):
    # energy(0), and what is lost at t = 0.2 and 2
    expected = {
        "CG-symp": (17.72628133, 0, 0),
        "CG-diss": (17.72628133, 1.571e-3, 1.529e-2),
        "Mixed-symp": (17.72448012, 9.606e-6, 7.940e-5),
        "Mixed-diss": (17.72448012, 1.476e-3, 1.473e-2),
        "HDG-symp": (17.72425229, 0, 0),
        "HDG-diss": (17.72422269, 2.020e-3, 2.808e-2),
    }
    if ranks > 1:
        expected = {scheme: expected[scheme] for scheme in ("CG-diss", "HDG-diss")}
    options = ("--t-end", str(end), "--every", "5", "--schemes", ",".join(expected))
    text = run("acoustic_obstacle.py", tmp_path, ranks, *options)
    for scheme, (energy, early, late) in expected.items():
        start, *_, loss, _, momentum, _ = numbers(scheme, text)
        assert start == pytest.approx(energy, abs=2e-8)
        assert loss == pytest.approx(early if end < 1 else late, rel=1e-3, abs=1e-11)
        assert momentum < 1e-13
        row = next(line for line in text.splitlines() if line.startswith(scheme))
        assert ("always" in row) == scheme.endswith("diss")
        rows = (tmp_path / f"acoustic_obstacle_{scheme}.csv").read_text().splitlines()
        assert [r for r in rows if r[0] != "#"][-1].startswith(f"{100 * end:.0f},{end}")
    pictures(*(tmp_path / f"acoustic_obstacle_{name}.png" for name in ("snapshots", "histories")))


def test_double_pendulum(tmp_path):
    text = run("oscillators/double_pendulum.py", tmp_path, 1)
    # Table 2 of the paper: what agrees, rounded or cut, and what cannot be reproduced
    assert "63 printed numbers are ours, rounded" in text
    assert "22 are ours, cut after the last digit" in text
    assert "5 are ours, cut early" in text
    assert "6 cannot be reproduced" in text
    for method, row in {
        "Newmark q": (0.3425, 0.342, 0.09614, 0.0961, 0.02515, 0.0251),
        "Simpson q": (0.002018, 0.00201, 0.0001414, 0.000141, 0.000008767, 0.00000876),
    }.items():
        values = numbers(f"1 {method}", text)[1:7]
        assert values == pytest.approx(row, rel=1e-12)
    pictures(tmp_path / "double_pendulum.png", tmp_path / "double_pendulum_convergence.png")


@pytest.mark.parametrize("ranks", [1, 2])
def test_poisson_orbits(ranks, tmp_path):
    text = run("oscillators/poisson_orbits.py", tmp_path, ranks)
    first, last, casimir, modified = numbers("symplectic Euler", text)
    assert (first, last) == pytest.approx((0.1346, 0.1346), rel=1e-3)
    assert max(casimir, modified) < 1e-12
    assert max(numbers("implicit midpoint", text)) < 1e-12
    pictures(tmp_path / "poisson_orbits.png")


def test_long_run(tmp_path):
    text = run("oscillators/long_run.py", tmp_path, 1)
    for method, (low, high) in {
        "Störmer-Verlet": (1e-3, 2e-2),
        "Yoshida, order 4": (1e-5, 1e-3),
        "implicit midpoint": (0, 1e-12),
    }.items():
        first, last = numbers(method, text)[-4:-2]
        assert low <= last <= max(1.1 * first, 1e-12)
        assert first < high
    assert numbers("Runge-Kutta 4", text)[-4:-2] == pytest.approx((0.1079, 0.4987), rel=1e-3)
    pictures(tmp_path / "long_run.png")


def test_self_starting(tmp_path):
    text = run("oscillators/self_starting.py", tmp_path, 1)
    for method, order in {
        "CDM, naive start": 1,
        "CDM, correct start": 2,
        "Störmer-Verlet": 2,
        "alpha = 1/2": 2,
    }.items():
        assert numbers(method, text)[-2:] == pytest.approx((order, order), abs=0.1)
    assert numbers("Störmer-Verlet, and CDM, correct start", text)[-1] < 1e-11
    pictures(tmp_path / "self_starting.png")


ENERGY = {"cg": 0.59949017, "mixed": 0.58844657, "hdg": 0.59939641, "dissipative_hdg": 0.59939641}
# What SDIRK3 and the jumps of dissipative HDG lose, by the number of steps
LOSS = {
    "cg": {40: 2.75e-5, 400: 2.29e-4, 10_000: 3.17e-3},
    "dissipative_hdg": {400: 2.81e-2, 10_000: 9.34e-2},
}


@pytest.mark.parametrize(
    ("ranks", "steps", "spaces"),
    [
        (1, 400, "cg,mixed,hdg,dissipative_hdg"),
        (2, 40, "cg,hdg"),
        pytest.param(1, 10_000, "cg,mixed,hdg,dissipative_hdg", marks=pytest.mark.slow),
    ],
)
def test_elastic_momentum(ranks, steps, spaces, tmp_path):
    options = ("--steps", str(steps), "--every", "20", "--space", spaces)
    text = run("elastic_momentum.py", tmp_path, ranks, *options)
    table = text[text.index("changes are relative") :]
    for space in spaces.split(","):
        rows = [line for line in table.splitlines() if line.startswith(space + " ")]
        assert len(rows) == {"cg": 5, "mixed": 3, "hdg": 3, "dissipative_hdg": 1}[space]
        for row in rows:
            method, _, energy0, energy, *modified, linear, angular, _ = row.split()[1:]
            assert float(energy0) == pytest.approx(ENERGY[space], rel=1e-7)
            assert max(float(linear), float(angular)) < 1e-13
            if space == "dissipative_hdg" or method == "SDIRK3":
                assert float(energy) == pytest.approx(LOSS[space][steps], rel=1e-2)
            elif method == "Verlet":  # its energy oscillates, its modified energy stays
                assert 1e-5 < float(energy) < 1e-4
                assert float(modified[0]) < 1e-11
            else:
                assert float(energy) < 1e-11
    pictures(tmp_path / "elastic_momentum.png")


def test_elastic_lamb(tmp_path):
    text = run("elastic_lamb.py", tmp_path, 1, "--h", "0.4")
    speed, theory = numbers("Rayleigh   ", text)[2:4]
    assert theory == 0.9194
    assert speed == pytest.approx(0.9207, abs=2e-4)  # within 2 % on this coarse mesh, and 0.02 %
    speed, theory = numbers("P   ", text)[2:4]  # on the mesh of the demo
    assert theory == 1.7321
    assert speed == pytest.approx(1.7089, abs=2e-4)
    _, arrival, theory = numbers("Rayleigh wave at offset 10", text)
    assert arrival == pytest.approx(theory, abs=0.02)
    height, difference = numbers("Rayleigh pulse against Lamb's", text)
    assert abs(height - 1) < 0.03
    assert difference < 20  # %; 1.1 % on the mesh of the demo
    pictures(tmp_path / "elastic_lamb.png", tmp_path / "elastic_lamb_snapshots.png")


def test_elastic_lamb_on_two_ranks(tmp_path):
    traces = []
    for ranks in (1, 2):
        folder = tmp_path / str(ranks)
        run("elastic_lamb.py", folder, ranks, "--h", "1", "--dt", "0.1", "--t-end", "4")
        traces.append(hf.read_receivers(folder / "elastic_lamb.csv"))
    assert [*traces[0]][:4] == ["step", "t", "v_x_0", "v_y_0"]
    assert len(traces[0]) == 44
    assert len(traces[0]["t"]) == 41
    assert np.abs(traces[0]["v_x_2"]).max() > 0.1
    for name, values in traces[0].items():
        np.testing.assert_allclose(traces[1][name], values, rtol=0, atol=1e-8)


@pytest.mark.parametrize("ranks", [1, 2])
def test_elastic_beam(ranks, tmp_path):
    options = ("--n", "2", "--samples", "16", "--periods", "1.5") if ranks > 1 else ()
    if ranks > 1:
        options = (*options, "--methods", "cg-2,hdg-1", "--rubber", "0")
    text = run("elastic_beam.py", tmp_path, ranks, *options)
    stiff, *rubber = text[text.index("a cantilever") :].split("plane strain")
    assert numbers("Timoshenko", stiff) == [0.005065, 0, 0.031384, 0]
    assert numbers("Euler-Bernoulli", stiff) == [0.005075, 0.19, 0.031804, 1.34]
    expected = {  # errors of the frequencies in %
        "cg-1": (19.8, 19.65), "cg-2": (0.10, 0.09), "mixed-1": (0.05, 0.04), "hdg-1": (0.05, -0.06)
    }  # fmt: skip
    if ranks > 1:
        expected = {"cg-2": (0.19, 0.24), "hdg-1": (0.30, -0.43)}
    for method, errors in expected.items():
        assert numbers(method, stiff)[2:5:2] == pytest.approx(errors, abs=0.03)
    if ranks == 1:  # nearly incompressible: only continuous elements of degree 1 lock
        expected = {"cg-2": (1.84, 1.76), "mixed-1": (0.45, 0.39), "hdg-1": (0.13, -0.05)}
        for method, errors in expected.items():
            assert numbers(method, rubber[0])[2:5:2] == pytest.approx(errors, abs=0.03)
        assert numbers("cg-1", rubber[0])[2] > 500
    pictures(tmp_path / "elastic_beam.png")


# The total charge, and the error in the norm of the energy, by degree and number of steps
CAVITY = {
    "mixed, Verlet": {(1, 200): (0.65739855, 0.409), (2, 10_000): (0.71161771, 1.61)},
    "mixed, Gauss(2)": {(1, 200): (0.65739855, 0.349), (2, 10_000): (0.71161771, 0.812)},
    "mixed on cubes, Verlet": {(1, 200): (0.75660590, 0.0879), (2, 10_000): (0.76494037, 1.54)},
    "mixed on cubes, PEFRL": {(1, 200): (0.75660590, 0.0422), (2, 10_000): (0.76494037, 0.006)},
    "dual, Verlet": {(1, 200): (0.76394373, 0.322), (2, 10_000): (0.76394373, 1.39)},
    "dual on cubes, Verlet": {(1, 200): (0.76394373, 0.0974), (2, 10_000): (0.76394373, 1.47)},
    "cg, Gauss(1)": {(1, 200): (0.65739855, 0.273), (2, 10_000): (0.71161771, 1.98)},
    "cg on cubes, Verlet": {(1, 200): (0.75660590, 0.0879), (2, 10_000): (0.76494037, 1.54)},
    "hdg, Gauss(1)": {(1, 200): (0.65739855, 0.869), (2, 10_000): (0.71161771, 1.96)},
    "hdg, Gauss(2)": {(1, 200): (0.65739855, 0.781), (2, 10_000): (0.71161771, 1.06)},
    "dissipative_hdg, Gauss(1)": {(1, 200): (0.65739855, 0.813), (2, 10_000): (0.71161771, 1.22)},
}


@pytest.mark.parametrize(
    ("ranks", "degree", "steps", "schemes"),
    [
        (1, 1, 200, [*CAVITY]),
        (2, 1, 200, ["mixed, Verlet", "hdg, Gauss(1)"]),
        pytest.param(1, 2, 10_000, [*CAVITY], marks=pytest.mark.slow),
    ],
)
def test_maxwell_cavity(ranks, degree, steps, schemes, tmp_path):
    options = ["--degree", str(degree), "--steps", str(steps), "--schemes", ";".join(schemes)]
    if steps < 10_000:
        options += ["--looks", "4"]
    text = run("maxwell_cavity.py", tmp_path, ranks, *options)
    table = text[text.index(f"{steps} steps; changes are the largest") :].splitlines()[2:-1]
    assert [row[:26].strip() for row in table] == schemes
    for row in table:
        name, columns = row[:26].strip(), row[26:].split()
        energy, modified, charge, electric, magnetic, error = columns[2:8]
        assert (float(charge), float(error)) == (
            pytest.approx(CAVITY[name][degree, steps][0], abs=2e-8),
            pytest.approx(CAVITY[name][degree, steps][1], rel=5e-3),
        )
        assert max(float(electric), float(magnetic)) < 1e-12
        if "Verlet" in name:  # its energy oscillates, its modified energy stays
            assert 1e-3 < float(energy) < 2e-2
            assert float(modified) < 1e-11
        elif "PEFRL" in name:
            assert 1e-7 < float(energy) < 1e-5
            assert modified == "-"
        elif "dissipative" in name:
            assert float(energy) > 0.9
        else:
            assert float(energy) < 1e-11
    pictures(tmp_path / "maxwell_cavity.png")


@pytest.mark.parametrize(
    ("ranks", "options", "energies", "front", "behind"),
    [
        # a coarse field, until the pulse has left
        *(
            (
                ranks,
                ("--degree", "1", "--t-end", "4.4"),
                (1.574740, 0.450),
                (0.1048, 0.1034, 0.617),
                (1.1365, 1.0535, 0.103),
            )
            for ranks in (1, 2)
        ),
        pytest.param(
            1,
            (),
            (1.590426, 0.0111),
            (0.2987, 0.3224, 0.138),
            (1.0951, 1.0522, 0.052),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_maxwell_scatterer(ranks, options, energies, front, behind, tmp_path):
    text = run("maxwell_scatterer.py", tmp_path, ranks, *options)
    largest, end = numbers("energy in at most", text)
    assert largest == pytest.approx(energies[0], abs=2e-6)
    assert end == pytest.approx(energies[1], rel=5e-3)
    # Verlet takes the walls implicitly: the balance holds to its order
    assert numbers("energy + outflow - work", text)[0] < 5e-3
    assert numbers("div B", text)[0] < 1e-11
    # peak, Mie's, and the distance between the traces
    assert numbers("scattered in front", text)[1:] == pytest.approx(front, abs=1e-3)
    assert numbers("scattered behind", text)[1:] == pytest.approx(behind, abs=1e-3)
    traces = hf.read_receivers(tmp_path / "maxwell_scatterer.csv")
    assert [*traces] == ["step", "t", *(f"E_{c}_{i}" for i in range(2) for c in "xyz")]
    assert np.abs(traces["E_y_1"]).max() > 1
    pictures(*(tmp_path / f"maxwell_scatterer_{name}.png" for name in ("traces", "snapshots")))


# By scheme: the error on the first two meshes after 4 periods, and what the energy changes at most
YEE_AND_FEM = {
    "Yee": (1.43e-1, 3.59e-2, 4e-3),
    "mixed 0, triangles": (9.67e-2, 2.68e-2, 4e-3),
    "mixed 1, triangles": (3.90e-2, 5.75e-3, 1e-7),
    "mixed 2, triangles": (1.44e-2, 1.07e-3, 1e-7),
    "mixed 1, squares": (2.66e-2, 6.85e-3, 1e-8),
    "mixed 3, squares": (1.05e-3, 6.97e-5, 1e-7),
    "dual 2, triangles": (2.56e-2, 7.57e-4, 1e-7),
    "cg 2, triangles": (1.45e-2, 1.07e-3, 1e-11),
    "hdg 2, triangles": (1.71e-1, 7.40e-3, 1e-11),
    "dissipative_hdg 2": (1.16e-1, 7.21e-3, 1.0),
}


@pytest.mark.parametrize(
    ("ranks", "schemes"),
    [(1, [*YEE_AND_FEM]), (2, ["Yee", "mixed 1, squares", "hdg 2, triangles"])],
)
def test_maxwell_yee_vs_fem(ranks, schemes, tmp_path):
    options = ("--meshes", "2", "--periods", "4", "--schemes", ";".join(schemes))
    text = run("maxwell_yee_vs_fem.py", tmp_path, ranks, *options)
    rows = [(row[:20].strip(), row[20:].split()) for row in text.splitlines()[1:-1]]
    assert [name for name, _ in rows] == [name for name in schemes for _ in range(2)]
    for i, (name, columns) in enumerate(rows):
        error, energy, charge = (float(columns[j]) for j in (4, 6, 7))
        assert error == pytest.approx(YEE_AND_FEM[name][i % 2], rel=5e-3)
        assert energy < YEE_AND_FEM[name][2]
        assert charge < 1e-12
    pictures(tmp_path / "maxwell_yee_vs_fem.png")


@pytest.mark.parametrize(
    ("ranks", "steps", "schemes"),
    [
        (1, 2000, ["Yee, Verlet", "Yee, Gauss(1)", "mixed, Verlet", "mixed on cubes, Verlet"]),
        (2, 2000, ["Yee, Verlet", "mixed on cubes, Verlet"]),
        pytest.param(
            1,
            100_000,
            ["Yee, Verlet", "Yee, Gauss(1)", "mixed, Verlet", "mixed on cubes, Verlet"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_maxwell_chirality(ranks, steps, schemes, tmp_path):
    # the chirality at first, and how much it changes at most, tracked by finite elements
    first = {"Yee, Verlet": 2.849849, "Yee, Gauss(1)": 2.558277, "mixed, Verlet": 2.949904,
             "mixed on cubes, Verlet": 2.950410}  # fmt: skip
    tracked = {
        "Yee, Verlet": 4e-5,
        "mixed, Verlet": 4e-4 if steps == 2000 else 0.2,
        "mixed on cubes, Verlet": 5e-3,
    }
    options = ("--steps", str(steps), "--looks", "100", "--schemes", ";".join(schemes))
    text = run("maxwell_chirality.py", tmp_path, ranks, *options)
    assert "chirality 2.953139 of the exact pulse" in text
    table = text[text.index(f"{steps} steps; chirality") :].splitlines()[2:-1]
    assert [row[:22].strip() for row in table] == schemes
    for row in table:
        name, columns = row[:22].strip(), row[22:].split()
        chirality, change, modified, energy, charge = map(float, columns[2:7])
        assert chirality == pytest.approx(first[name], abs=2e-6)
        if name in tracked:
            assert tracked[name] / 4 < change < tracked[name]
        if "Yee" in name:
            assert modified < 1e-12
        assert max(energy, charge) < 1e-11
    pictures(tmp_path / "maxwell_chirality.png")
