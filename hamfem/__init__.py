"""hamfem: linear Hamiltonian waves on FEniCSx, with their structure kept."""

from hamfem import dolfinx_versions as dolfinx_versions  # first: says what is wrong with DOLFINx
from hamfem import exact as exact
from hamfem._version import version as __version__
from hamfem.discretization.cg import cg
from hamfem.domain import Domain, box, read_mesh
from hamfem.integrators.gauss import Gauss
from hamfem.integrators.march import march
from hamfem.integrators.partitioned import Verlet
from hamfem.physics.acoustic import Acoustic
from hamfem.physics.boundary import Clamped, Free
from hamfem.system import SecondOrder, State

__all__ = [
    "Acoustic",
    "Clamped",
    "Domain",
    "Free",
    "Gauss",
    "SecondOrder",
    "State",
    "Verlet",
    "__version__",
    "box",
    "cg",
    "exact",
    "march",
    "read_mesh",
]
