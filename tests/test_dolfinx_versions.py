import numpy as np
import pytest

from hamfem import dolfinx_versions


@pytest.mark.parametrize("version", ["0.8.0", "0.7.3", "unknown"])
def test_old_versions_are_refused(version):
    with pytest.raises(
        ImportError, match=f"needs DOLFINx 0.9 to 0.11 and this is DOLFINx {version}"
    ):
        dolfinx_versions.check(version, np.float64)


def test_complex_builds_are_refused():
    with pytest.raises(ImportError, match="this build is complex"):
        dolfinx_versions.check("0.9.0", np.complex128)


@pytest.mark.parametrize(
    ("version", "expected"), [("0.9.0", (0, 9)), ("0.10.0", (0, 10)), ("0.11.0.post0", (0, 11))]
)
def test_supported_versions_pass(version, expected):
    assert dolfinx_versions.check(version, np.float64) == expected


def test_newer_versions_warn():
    with pytest.warns(UserWarning, match="tested on DOLFINx 0.9 to 0.11"):
        dolfinx_versions.check("0.12.0", np.float64)
