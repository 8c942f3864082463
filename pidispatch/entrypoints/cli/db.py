"""`db`: the database's schema and address, and psql on it."""

from typing import Annotated

import typer

from pidispatch.entrypoints.cli.output import AsJson, err, out, plain, print_json

db = typer.Typer(no_args_is_help=True)


@db.command()
def upgrade() -> None:
    """Bring the schema to this version."""
    from pidispatch.app.installation import Installation
    from pidispatch.app.verbs import database

    with Installation.here() as here:
        database.upgrade(here, say=lambda line: err.print(plain(line)))


@db.command()
def check(as_json: AsJson = False) -> None:
    """Say whether the schema is this version's: ok (exit code 0), behind, ahead or damaged (1)."""
    from pidispatch.app.installation import Installation
    from pidispatch.app.verbs import database

    with Installation.here() as here:
        state = database.check(here)
    ok = state.fit is database.Fit.OK
    if as_json:
        print_json(
            {
                "state": state.fit,
                "found": state.found,
                "wanted": state.wanted,
                "missing": list(state.missing),
            }
        )
    else:
        way_out = {
            "behind": "; run `pidispatch db upgrade`",
            "ahead": "; install the newer pidispatch",
            "damaged": f"; it lacks {', '.join(state.missing)}: restore it from a backup",
        }
        found = state.found or "no revision"
        out.print(
            plain(f"{state.fit}: at {found}, this version needs {state.wanted}{way_out.get(state.fit, '')}")
        )
    raise typer.Exit(0 if ok else 1)


@db.command()
def url() -> None:
    """Print the database's address for other programs, without its password."""
    from pidispatch.app.installation import Installation
    from pidispatch.app.verbs import database

    with Installation.here() as here:
        out.print(plain(database.shown_address(here)))


@db.command(
    context_settings={
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
        "help_option_names": [],
    },
)
def psql(
    arguments: Annotated[list[str] | None, typer.Argument(metavar="ARGS", help="Arguments for psql.")] = None,
) -> None:
    """Open psql on the database; arguments are psql's, as in `pidispatch db psql -c 'TABLE run_history'`."""
    from pidispatch.app.installation import Installation
    from pidispatch.app.verbs import database

    with Installation.here() as here:
        raise typer.Exit(database.psql(here, arguments or []))
