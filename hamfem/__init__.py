"""hamfem: linear Hamiltonian waves on FEniCSx, with their structure kept."""

from hamfem import dolfinx_versions as dolfinx_versions  # first: says what is wrong with DOLFINx
from hamfem import exact as exact
from hamfem._version import version as __version__
from hamfem.discretization.cg import cg
from hamfem.discretization.dissipative_hdg import dissipative_hdg
from hamfem.discretization.hdg import hdg
from hamfem.discretization.mixed import mixed
from hamfem.discretization.yee import yee
from hamfem.domain import Domain, box, read_mesh
from hamfem.integrators.dirk import SDIRK3, SymplecticDIRK
from hamfem.integrators.explicit import (
    PEFRL,
    SRKN,
    SS15,
    BlanesMoan,
    KahanLi,
    McLachlanAtela,
    McLachlanS5,
    Ruth3,
    SelfStarting,
    Suzuki4,
    SymplecticEuler,
    Verlet,
    Yoshida,
)
from hamfem.integrators.gauss import Gauss
from hamfem.integrators.march import march
from hamfem.integrators.newmark import GeneralizedAlpha, Newmark
from hamfem.integrators.partitioned import Partitioned
from hamfem.integrators.partitioned_runge_kutta import PartitionedRungeKutta
from hamfem.integrators.runge_kutta import RK4, RungeKutta
from hamfem.integrators.simpson import Simpson
from hamfem.invariants import linear_invariants, modified_energy, noether, structure
from hamfem.loads import Load, SampledLoad
from hamfem.monitors.checkpoint import Checkpoint, read_checkpoint
from hamfem.monitors.fields import Fields
from hamfem.monitors.history import History, read_history
from hamfem.monitors.probe import Probe
from hamfem.monitors.progress import Progress
from hamfem.monitors.receivers import Receivers, read_receivers
from hamfem.physics import mandel as mandel
from hamfem.physics.acoustic import Acoustic
from hamfem.physics.boundary import Clamped, Free, Impedance, Periodic
from hamfem.physics.elastic import Elastic
from hamfem.physics.maxwell import Maxwell
from hamfem.physics.source import Source
from hamfem.state import State
from hamfem.system import FirstOrder, SecondOrder

__all__ = [
    "PEFRL",
    "RK4",
    "SDIRK3",
    "SRKN",
    "SS15",
    "Acoustic",
    "BlanesMoan",
    "Checkpoint",
    "Clamped",
    "Domain",
    "Elastic",
    "Fields",
    "FirstOrder",
    "Free",
    "Gauss",
    "GeneralizedAlpha",
    "History",
    "Impedance",
    "KahanLi",
    "Load",
    "Maxwell",
    "McLachlanAtela",
    "McLachlanS5",
    "Newmark",
    "Partitioned",
    "PartitionedRungeKutta",
    "Periodic",
    "Probe",
    "Progress",
    "Receivers",
    "RungeKutta",
    "Ruth3",
    "SampledLoad",
    "SecondOrder",
    "SelfStarting",
    "Simpson",
    "Source",
    "State",
    "Suzuki4",
    "SymplecticDIRK",
    "SymplecticEuler",
    "Verlet",
    "Yoshida",
    "__version__",
    "box",
    "cg",
    "dissipative_hdg",
    "exact",
    "hdg",
    "linear_invariants",
    "mandel",
    "march",
    "mixed",
    "modified_energy",
    "noether",
    "read_checkpoint",
    "read_history",
    "read_mesh",
    "read_receivers",
    "structure",
    "yee",
]
