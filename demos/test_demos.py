"""Every demo runs, on one rank and on two, and its numbers are pinned."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

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
