"""The suite itself: a rank that fails must end the job with an error instead of hanging it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.serial

LEFT_WAITING = """
from mpi4py import MPI
def test_one_rank_fails():
    assert MPI.COMM_WORLD.rank == 0
    MPI.COMM_WORLD.Barrier()
"""
FAILS_ON_ONE = """
from mpi4py import MPI
def test_one_rank_fails():
    assert MPI.COMM_WORLD.rank == 0
def test_passes():
    MPI.COMM_WORLD.Barrier()
"""
CRASHES = """
from mpi4py import MPI
import os
def test_one_rank_dies():
    if MPI.COMM_WORLD.rank == 1:
        os.abort()
    MPI.COMM_WORLD.Barrier()
"""


def run(source, tmp_path):
    (tmp_path / "conftest.py").write_text((ROOT / "conftest.py").read_text())
    (tmp_path / "test_it.py").write_text(source)
    command = ["mpirun", "-n", "2", sys.executable, "-m", "pytest", "--color=no", str(tmp_path)]
    environment = {**os.environ, "HAMFEM_TEST_PATIENCE": "1"}
    return subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_rank_left_waiting_does_not_hang_the_job(tmp_path):
    result = run(LEFT_WAITING, tmp_path)
    assert result.returncode != 0
    assert "did not come back" in result.stderr + result.stdout
    assert "assert 1 == 0" in result.stderr + result.stdout


def test_a_failure_on_another_rank_is_reported_by_rank_0(tmp_path):
    result = run(FAILS_ON_ONE, tmp_path)
    assert result.returncode != 0
    assert "rank 1, call" in result.stdout
    assert "2 passed, 1 error" in result.stdout


def test_a_rank_that_dies_ends_the_job(tmp_path):
    assert run(CRASHES, tmp_path).returncode != 0
