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
        "Störmer-Verlet": (6.1685124453, 6.1683621412, 3.455707596e-04),
        "implicit midpoint": (6.1685124453, 6.1685124453, 6.804730825e-04),
    }
    for name, (start, end, drift, error) in rows.items():
        assert (start, end, error) == pytest.approx(expected[name], rel=2e-10)
        # omega dt = 0.014: Verlet's energy oscillates by O(dt²), the midpoint rule's by round-off
        assert 1e-6 < drift < 1e-4 if name == "Störmer-Verlet" else drift < 1e-12
    picture = tmp_path / "acoustic_membrane.png"
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
