from mpi4py import MPI

import pytest

from hamfem.errors import on_root

COMM = MPI.COMM_WORLD


def test_a_result_reaches_every_rank():
    assert on_root(COMM, lambda: COMM.rank + 42) == 42


def test_an_error_on_rank_0_is_raised_on_every_rank():
    def fail():
        raise ValueError("no such thing")

    with pytest.raises(ValueError, match="no such thing"):
        on_root(COMM, fail)
