"""`image`: build and check the image of the box."""

from typing import Annotated, Literal

import typer

from pidispatch.entrypoints.cli.options import AsJson
from pidispatch.entrypoints.cli.output import err, out, plain, print_json

image = typer.Typer(no_args_is_help=True)


@image.command()
def build(
    base: Annotated[
        Literal["auto", "registry", "debootstrap"],
        typer.Option(help="What to build on: a registry's Debian, or one made here."),
    ] = "auto",
) -> None:
    """Build the job image, unless it is up to date."""
    from pidispatch.app.installation import Installation
    from pidispatch.app.jobimage import build_image

    with Installation.here() as here:
        out.print(plain(build_image(here, lambda line: err.print(plain(line)), base=base)))


@image.command()
def check(as_json: AsJson = False) -> None:
    """Say whether the job image is the one this version uses: exit code 0, or 1 with what is wrong."""
    from pidispatch.app.installation import Installation
    from pidispatch.app.jobimage import check_image

    with Installation.here() as here:
        found = check_image(here)
    if as_json:
        print_json(
            {
                "tag": found.tag,
                "ok": found.ok,
                "image_id": found.image_id,
                "pi_version": found.pi_version,
                "problems": found.problems,
                "way_out": found.way_out or None,
            }
        )
    elif found.ok:
        out.print(plain(f"ok: {found.tag} holds pi {found.pi_version} ({found.image_id})"))
    else:
        for problem in found.problems:
            out.print(plain(f"{found.tag}: {problem}"))
        out.print(plain(found.way_out))
    raise typer.Exit(0 if found.ok else 1)
