"""The layers: physics <- discretization -> system <- integrators; elements stay on the left."""

import ast
from pathlib import Path

import pytest

import hamfem

PACKAGE = Path(hamfem.__file__).parent
# What knows only matrices and vectors.
DISCRETE = ("hamfem.physics", "hamfem.discretization", "hamfem.domain", "dolfinx", "ufl")
FORBIDDEN = {
    "physics": ("hamfem.discretization", "hamfem.system", "hamfem.integrators"),
    "discretization": ("hamfem.integrators",),
    "integrators": DISCRETE,
    **{
        file: ("hamfem.integrators", *DISCRETE)
        for file in (
            "system.py",
            "state.py",
            "stage.py",
            "flow.py",
            "loads.py",
            "matrices.py",
            "solvers.py",
            "kernel.py",
            "stability.py",
        )
    },
    "invariants.py": DISCRETE,
    "domain.py": ("hamfem.physics", "hamfem.discretization", "hamfem.system", "hamfem.integrators"),
    "exact.py": ("hamfem.", "dolfinx", "ufl"),
}


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("room", FORBIDDEN)
def test_rooms_import_only_what_is_below_them(room):
    place = PACKAGE / room
    files = [place] if place.is_file() else sorted(place.glob("*.py"))
    assert files
    for file in files:
        for name in imports(file):
            assert not name.startswith(FORBIDDEN[room]), f"{file} imports {name}"


def test_only_one_file_knows_the_version_of_dolfinx():
    for file in PACKAGE.rglob("*.py"):
        if file.name != "dolfinx_versions.py":
            text = file.read_text()
            assert "dolfinx.__version__" not in text, file
            assert "gmshio" not in text, file


def test_all_public_names_exist():
    for name in hamfem.__all__:
        assert hasattr(hamfem, name)
