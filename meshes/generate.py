"""Regenerate the .msh files of this directory from their .geo sources.

docker/run python meshes/generate.py                       all of them, as committed
docker/run python meshes/generate.py obstacle_square -p n=8 -o fine.msh     one, refined
"""

from pathlib import Path
from typing import Annotated

import gmsh
import typer

HERE = Path(__file__).parent


def generate(source: Path, target: Path, parameters: dict[str, float]) -> None:
    """Mesh one .geo file; parameters replace the constants that it defines."""
    gmsh.initialize(interruptible=False)
    try:
        gmsh.option.setNumber("General.Terminal", 0)
        for name, value in parameters.items():
            gmsh.parser.setNumber(name, [value])
        gmsh.merge(str(source))  # gmsh.open would forget the parameters
        dim = gmsh.model.getDimension()
        gmsh.model.mesh.generate(dim)
        gmsh.write(str(target))
        cells = sum(len(tags) for tags in gmsh.model.mesh.getElements(dim)[1])
        print(f"{target}: {cells} cells, {len(gmsh.model.mesh.getNodes()[0])} nodes")
    finally:
        gmsh.finalize()


def main(
    name: Annotated[str | None, typer.Argument(help="A .geo file without its ending.")] = None,
    parameter: Annotated[list[str] | None, typer.Option("-p", help="NAME=VALUE")] = None,
    output: Annotated[Path | None, typer.Option("-o", help="Where to write the mesh.")] = None,
) -> None:
    """Regenerate one mesh or all."""
    if (parameter or output) and name is None:
        raise typer.BadParameter("a parameter or an output needs the name of one mesh.")
    parameters = {k: float(v) for k, v in (p.split("=") for p in parameter or [])}
    sources = sorted(HERE.glob("*.geo")) if name is None else [HERE / f"{name}.geo"]
    for source in sources:
        if not source.is_file():
            raise typer.BadParameter(f"there is no {source}.")
        generate(source, output or source.with_suffix(".msh"), parameters)


if __name__ == "__main__":
    typer.run(main)
