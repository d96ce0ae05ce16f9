from pathlib import Path

from mpi4py import MPI

import numpy as np
import pytest
import ufl
from dolfinx import fem
from dolfinx.fem.petsc import assemble_matrix
from dolfinx.mesh import compute_midpoints, create_submesh, entities_to_geometry

import hamfem as hf
from hamfem import dolfinx_versions

COMM = MPI.COMM_WORLD
MESHES = Path(__file__).parents[1] / "meshes"
BOXES = {
    "interval": ((0.0,), (2.0,), (7,)),
    "triangle": ((0, -1), (2, 3), (5, 4)),
    "quadrilateral": ((0, -1), (2, 3), (5, 4)),
    "tetrahedron": ((0, -1, 5), (2, 3, 6), (3, 4, 2)),
    "hexahedron": ((0, -1, 5), (2, 3, 6), (3, 4, 2)),
}
SIDES = ["left", "right", "bottom", "top", "back", "front"]


def measure(domain, integrand, kind, tags, number):
    dx = ufl.Measure(kind, domain=domain.mesh, subdomain_data=tags)
    one = fem.Constant(domain.mesh, 1.0)
    return COMM.allreduce(fem.assemble_scalar(fem.form(one * integrand * dx(number))))


def boundary_size(domain, name):
    return measure(domain, 1.0, "ds", domain.facet_tags, domain.boundaries[name])


def region_size(domain, name):
    return measure(domain, 1.0, "dx", domain.cell_tags, domain.regions[name])


@pytest.mark.parametrize("cell", BOXES)
def test_sides_of_a_box_have_their_names_and_sizes(cell):
    lower, upper, n = BOXES[cell]
    domain = hf.box(COMM, lower, upper, n, cell)
    dim = len(n)
    assert domain.cell == cell
    assert domain.dim == dim
    assert list(domain.boundaries) == SIDES[: 2 * dim]
    lengths = np.subtract(upper, lower)
    x = ufl.SpatialCoordinate(domain.mesh)
    for i, name in enumerate(domain.boundaries):
        axis = i // 2
        area = np.prod(np.delete(lengths, axis))
        assert boundary_size(domain, name) == pytest.approx(area, rel=1e-12)
        place = (lower, upper)[i % 2][axis]
        distance = measure(domain, (x[axis] - place) ** 2, "ds", domain.facet_tags, i + 1)
        assert distance == pytest.approx(0.0, abs=1e-24)


def test_one_number_for_all_directions_and_an_interval_by_numbers():
    cells = hf.box(COMM, (0, 0), (1, 1), 6).mesh.topology.index_map(2).size_global
    assert cells == 72
    assert hf.box(COMM, 0, 1, 9, "interval").mesh.topology.index_map(1).size_global == 9


def test_a_tiny_box_far_from_the_origin():
    domain = hf.box(COMM, (1e6, 0), (1e6 + 1e-3, 1e-3), 4)
    assert boundary_size(domain, "left") == pytest.approx(1e-3, rel=1e-6)


def test_a_box_of_one_cell_leaves_ranks_empty():
    domain = hf.box(COMM, (0, 0), (1, 1), 1, "quadrilateral")
    assert boundary_size(domain, "top") == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (((0, 0), (1, 1), 4, "pentagon"), "no cell 'pentagon'"),
        (((0, 0, 0), (1, 1), 4), "needs 2 coordinate"),
        (((0, 0), (1, 1), (4, 4, 4)), "needs 2 coordinate"),
        (((0, 0), (1, 0), 4), "must exceed"),
        (((0, 0), (1, np.nan), 4), "must exceed"),
        (((0, 0), (1, 1), 0), "at least 1"),
        (((0, 0), (1, 1), 2.5), "whole numbers"),
    ],
)
def test_bad_boxes_are_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        hf.box(COMM, *arguments)


def test_an_unknown_name_is_refused_with_the_known_ones():
    domain = hf.box(COMM, (0, 0), (1, 1), 4)
    with pytest.raises(ValueError, match=r"no boundary 'lid'; it has: left, right, bottom, top"):
        domain.facets("lid")
    with pytest.raises(ValueError, match=r"no region 'rock'; it has: none"):
        domain.cells("rock")


def test_regions_and_boundaries_by_condition():
    domain = hf.box(COMM, (0, 0), (1, 1), 8).name_region("rock", lambda x: x[1] < 0.5 + 1e-9)
    domain = domain.name_region("water", lambda x: x[1] > 0.5 - 1e-9)
    domain = domain.name_boundary("lid", lambda x: (x[1] > 1 - 1e-9) & (x[0] < 0.5 + 1e-9))
    assert region_size(domain, "rock") == pytest.approx(0.5)
    assert region_size(domain, "water") == pytest.approx(0.5)
    assert boundary_size(domain, "lid") == pytest.approx(0.5)
    assert boundary_size(domain, "top") == pytest.approx(0.5)
    with pytest.raises(ValueError, match="holds nothing"):
        domain.name_region("gold", lambda x: x[0] > 2)


def tags_by_midpoint(domain):
    """{midpoint: tag} of all tagged facets that this rank sees, ghosts included."""
    tags = domain.facet_tags
    domain.mesh.topology.create_connectivity(domain.dim - 1, domain.dim)
    points = compute_midpoints(domain.mesh, domain.dim - 1, tags.indices)
    return {tuple(np.round(p, 6)): int(v) for p, v in zip(points, tags.values)}


@pytest.mark.parametrize("cell", ["quadrilateral", "hexahedron"])
def test_regions_of_a_box_need_no_mesh(cell):
    lower, upper, n = BOXES[cell]
    box = hf.box(COMM, lower, upper, n, cell)
    assert box.outside() == np.prod(n)
    box = box.name_region("low", lambda x: x[1] < 1.5)
    box = box.name_region("left", lambda x: (x[0] < 1.3) & (x[1] < 0.1))  # takes some of low
    with pytest.raises(ValueError, match="region 'nowhere' holds nothing"):
        box.name_region("nowhere", lambda x: x[0] > 10)
    names = ((), ("low",), ("left",), ("low", "left"))
    outside = [box.outside(*some) for some in names]
    regions = dict(box.regions)
    hf.Acoustic(box.name_region("all", lambda x: x[0] > -1), {"all": 2.0})
    with pytest.raises(ValueError, match="the density is not given everywhere: some cells lie in"):
        hf.Acoustic(box, {"low": 1.0, "left": 2.0})
    with pytest.raises(ValueError, match="the mesh has no region 'high'; it has: low, left"):
        hf.Acoustic(box, {"high": 1.0})
    assert "_named" not in vars(box)
    assert box.mesh.topology.dim == box.dim  # from here on there is one
    assert box.regions == regions == {"low": 1, "left": 2}
    assert [box.outside(*some) for some in names] == outside
    assert outside[0] == int(np.prod(n))
    size = np.prod(np.subtract(upper, lower)) / np.prod(n)
    for some, number in zip(names, outside):
        inside = sum(region_size(box, name) for name in some)
        assert inside == pytest.approx((np.prod(n) - number) * size)
    later = box.name_region("right", lambda x: x[0] > 1.3)
    assert later.regions["right"] == 3
    assert later.outside("right") < outside[0]


@pytest.mark.parametrize("source", ["box", "cavity_sphere.msh"])
def test_ghost_facets_carry_the_tags_of_their_owners(source):
    if source == "box":
        domain = hf.box(COMM, (0, 0, 0), (1, 1, 1), 4, "tetrahedron")
    else:
        domain = hf.read_mesh(COMM, MESHES / source)
    everything = {}
    for part in COMM.allgather(tags_by_midpoint(domain)):
        everything.update(part)
    msh, dim = domain.mesh, domain.dim
    msh.topology.create_connectivity(dim - 1, dim)
    facet_map = msh.topology.index_map(dim - 1)
    all_facets = np.arange(facet_map.size_local + facet_map.num_ghosts, dtype=np.int32)
    here = {tuple(np.round(p, 6)) for p in compute_midpoints(msh, dim - 1, all_facets)}
    expected = {p: v for p, v in everything.items() if p in here}
    assert tags_by_midpoint(domain) == expected


MSH = {
    "obstacle_square": (
        {"left": 4, "right": 4, "bottom": 6, "top": 6, "obstacle": 4},
        {"fluid": 23},
    ),
    "l_shape": ({"bottom": 1, "corner": 2, "right": 1, "top": 2, "left": 2}, {"inside": 3}),
}


@pytest.mark.parametrize("name", MSH)
def test_physical_names_of_gmsh_survive(name):
    domain = hf.read_mesh(COMM, MESHES / f"{name}.msh")
    boundaries, regions = MSH[name]
    assert domain.boundaries.keys() == boundaries.keys()
    assert domain.regions.keys() == regions.keys()
    for side, size in boundaries.items():
        assert boundary_size(domain, side) == pytest.approx(size, rel=1e-12)
    for region, size in regions.items():
        assert region_size(domain, region) == pytest.approx(size, rel=1e-12)


def test_disc_obstacle_and_cavity_with_a_sphere():
    disc = hf.read_mesh(COMM, MESHES / "obstacle_disc.msh")
    assert boundary_size(disc, "left") == pytest.approx(4)
    assert boundary_size(disc, "obstacle") == pytest.approx(np.pi, rel=0.02)
    assert region_size(disc, "fluid") == pytest.approx(24 - np.pi / 4, rel=0.002)
    cavity = hf.read_mesh(COMM, MESHES / "cavity_sphere.msh")
    assert cavity.cell == "tetrahedron"
    assert list(cavity.regions) == ["sphere", "cavity"]
    for side in SIDES:
        assert boundary_size(cavity, side) == pytest.approx(4)
    total = region_size(cavity, "sphere") + region_size(cavity, "cavity")
    assert total == pytest.approx(8)
    assert region_size(cavity, "sphere") == pytest.approx(4 / 3 * np.pi * 0.4**3, rel=0.2)
    interface = measure(cavity, 1.0, "dS", cavity.facet_tags, cavity.boundaries["interface"])
    assert interface == pytest.approx(4 * np.pi * 0.4**2, rel=0.1)


def test_square_obstacle_is_the_grid_with_right_diagonals():
    domain = hf.read_mesh(COMM, MESHES / "obstacle_square.msh")
    assert domain.mesh.topology.index_map(2).size_global == 736
    msh = domain.mesh
    msh.topology.create_connectivity(2, 0)
    cells = np.arange(msh.topology.index_map(2).size_local, dtype=np.int32)
    for nodes in entities_to_geometry(msh, 2, cells):
        corners = msh.geometry.x[nodes, :2]
        edges = corners - np.roll(corners, 1, axis=0)
        lengths = np.sort(np.linalg.norm(edges, axis=1))
        assert np.allclose(lengths, [0.25, 0.25, 0.25 * np.sqrt(2)])
        diagonal = edges[np.argmax(np.linalg.norm(edges, axis=1))]
        assert diagonal[0] * diagonal[1] > 0  # from lower left to upper right


@pytest.mark.parametrize("cell", ["triangle", "hexahedron", "interval"])
def test_an_xdmf_file_keeps_the_names(cell, shared_tmp_path):
    lower, upper, n = BOXES[cell]
    domain = hf.box(COMM, lower, upper, n, cell)
    middle = 0.5 * (lower[0] + upper[0])
    domain = domain.name_region("east", lambda x: x[0] > middle)
    domain.write(shared_tmp_path / "domain.xdmf")
    again = hf.read_mesh(COMM, shared_tmp_path / "domain.xdmf")
    assert again.boundaries == domain.boundaries
    assert again.regions == domain.regions
    assert region_size(again, "east") == pytest.approx(region_size(domain, "east"), rel=1e-12)
    for side in domain.boundaries:
        assert boundary_size(again, side) == pytest.approx(boundary_size(domain, side), rel=1e-12)


def test_wrong_files_give_one_sentence_on_every_rank(shared_tmp_path):
    with pytest.raises(FileNotFoundError, match="no mesh file"):
        hf.read_mesh(COMM, shared_tmp_path / "missing.msh")
    with pytest.raises(ValueError, match=r"neither a gmsh .msh nor an .xdmf"):
        hf.read_mesh(COMM, shared_tmp_path / "mesh.stl")
    files = {
        "text.msh": ("this is not a mesh", "gmsh cannot read|no physical groups"),
        "text.xdmf": ("this is not a mesh", "not an XDMF file"),
        "empty.xdmf": ("<Xdmf><Domain/></Xdmf>", "holds no mesh"),
    }
    for name, (text, sentence) in files.items():
        if COMM.rank == 0:
            (shared_tmp_path / name).write_text(text)
        COMM.barrier()
        with pytest.raises(ValueError, match=sentence):
            hf.read_mesh(COMM, shared_tmp_path / name)


def gmsh_file(path, build):
    """Write a .msh file made by `build(gmsh.model)` on rank 0."""
    if COMM.rank == 0:
        import gmsh

        gmsh.initialize(interruptible=False)
        gmsh.option.setNumber("General.Terminal", 0)
        build(gmsh.model)
        gmsh.model.mesh.generate(2)
        gmsh.write(str(path))
        gmsh.finalize()
    COMM.barrier()
    return path


def rectangle(model, height=0.0):
    surface = model.occ.addRectangle(0, 0, height, 1, 1)
    model.occ.synchronize()
    return surface


def test_meshes_without_groups_or_bent_into_space_are_refused(shared_tmp_path):
    with pytest.raises(ValueError, match="no physical groups"):
        hf.read_mesh(COMM, gmsh_file(shared_tmp_path / "nameless.msh", rectangle))

    def lifted(model):
        model.addPhysicalGroup(2, [rectangle(model, 1.0)], name="plate")

    with pytest.raises(ValueError, match="bent into space"):
        hf.read_mesh(COMM, gmsh_file(shared_tmp_path / "lifted.msh", lifted))


def test_groups_without_names_are_called_by_their_numbers(shared_tmp_path):
    def numbered(model):
        model.addPhysicalGroup(2, [rectangle(model)], 7)

    domain = hf.read_mesh(COMM, gmsh_file(shared_tmp_path / "numbered.msh", numbered))
    assert domain.regions == {"7": 7}
    assert domain.boundaries == {}
    assert region_size(domain, "7") == pytest.approx(1.0)


def test_quadrilaterals_of_gmsh(shared_tmp_path):
    def quads(model):
        model.addPhysicalGroup(2, [rectangle(model)], name="plate")
        for dim, curve in model.getEntities(1):
            model.mesh.setTransfiniteCurve(curve, 5)
        model.mesh.setTransfiniteSurface(1)
        model.mesh.setRecombine(2, 1)

    domain = hf.read_mesh(COMM, gmsh_file(shared_tmp_path / "quads.msh", quads))
    assert domain.cell == "quadrilateral"
    assert region_size(domain, "plate") == pytest.approx(1.0)


# ---------------------------------------------------------------- ghosts


def interior_jump(domain):
    """The sum over interior facets of the squared jump of a discontinuous function."""
    V = fem.functionspace(domain.mesh, ("DG", 1))
    u = fem.Function(V)
    # A value per cell that does not depend on the numbering: a rough function of its midpoint.
    u.interpolate(lambda x: np.sin(37 * x[0]) * np.cos(23 * x[1]))
    n = ufl.FacetNormal(domain.mesh)
    flux = ufl.dot(ufl.grad(u), n)
    form = fem.form((ufl.jump(flux) ** 2) * ufl.dS)
    return domain.comm.allreduce(fem.assemble_scalar(form))


@pytest.mark.parametrize("cell", ["triangle", "quadrilateral", "tetrahedron", "hexahedron"])
def test_interior_facets_are_all_seen_on_every_rank_count(cell):
    dim = len(BOXES[cell][0])
    arguments = ((0,) * dim, (1,) * dim, 4, cell)
    parallel = interior_jump(hf.box(COMM, *arguments))
    alone = interior_jump(hf.box(MPI.COMM_SELF, *arguments))
    assert alone > 1
    assert parallel == pytest.approx(alone, rel=1e-12)


def trace_coupling(domain):
    """y' C x for the coupling C = <u n_1, eta> of a cell space and a space on the facet submesh."""
    msh, dim = domain.mesh, domain.dim
    msh.topology.create_entities(dim - 1)
    facet_map = msh.topology.index_map(dim - 1)
    facets = np.arange(facet_map.size_local + facet_map.num_ghosts, dtype=np.int32)
    skeleton, entity_map = create_submesh(msh, dim - 1, facets)[:2]
    msh.topology.create_connectivity(dim, dim - 1)
    cell_facets = msh.topology.connectivity(dim, dim - 1)
    owned = msh.topology.index_map(dim).size_local
    pairs = [(c, i) for c in range(owned) for i in range(len(cell_facets.links(c)))]
    ds = ufl.Measure("ds", domain=msh, subdomain_data=[(1, np.array(pairs, np.int32).ravel())])
    V, T = fem.functionspace(msh, ("DG", 2)), fem.functionspace(skeleton, ("DG", 2))
    u, eta = ufl.TrialFunction(V), ufl.TestFunction(T)
    x = ufl.SpatialCoordinate(msh)
    integrand = ufl.inner(u, eta) * (1 + x[0]) * ds(1)
    maps = dolfinx_versions.entity_maps(skeleton, entity_map, len(facets))
    A = assemble_matrix(fem.form(integrand, entity_maps=maps))
    A.assemble()
    f, g = fem.Function(V), fem.Function(T)
    f.interpolate(lambda x: x[0] ** 2 + x[1])
    g.interpolate(lambda x: 1 + x[0] * x[1])
    y = A.createVecLeft()
    A.mult(f.x.petsc_vec, y)
    return y.dot(g.x.petsc_vec), A.norm()


@pytest.mark.parametrize("cell", ["triangle", "tetrahedron"])
def test_facet_submeshes_couple_on_every_rank_count(cell):
    dim = len(BOXES[cell][0])
    arguments = ((0,) * dim, (1,) * dim, 4, cell)
    parallel = trace_coupling(hf.box(COMM, *arguments))
    alone = trace_coupling(hf.box(MPI.COMM_SELF, *arguments))
    assert parallel == pytest.approx(alone, rel=1e-11)
