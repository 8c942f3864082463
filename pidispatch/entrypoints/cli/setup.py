"""`up`, `worker`, `image`, `doctor` and `config`: what an installation is, and whether it is in order."""

from typing import Annotated, Literal

import typer

from pidispatch.entrypoints.cli.output import AsJson, err, out, plain, print_json, print_table


def config(as_json: AsJson = False) -> None:
    from pidispatch.config import describe
    from pidispatch.config.environment import read_settings

    rows = describe(read_settings())
    if as_json:
        print_json(rows)
    else:
        print_table(("name", "value", "from"), [(row.name, _text(row.value), row.source) for row in rows])


def _text(value: object) -> str:
    match value:
        case None:
            return "unset"
        case bool():
            return "on" if value else "off"
        case list():
            return ", ".join(map(str, value)) or "none"
        case _:
            return str(value)


def doctor(as_json: AsJson = False) -> None:
    from pidispatch.app.doctor import Grade, examine
    from pidispatch.app.installation import Installation

    findings = []
    with Installation.here() as here:
        for finding in examine(here):
            findings.append(finding)
            if not as_json:
                out.print(plain(f"{finding.grade:<7}  {finding.check}: {finding.detail}"))
                if finding.way_out and finding.grade is not Grade.OK:
                    out.print(plain(f"         {finding.way_out}"))
    failed = sum(finding.grade is Grade.FAILED for finding in findings)
    warnings = sum(finding.grade is Grade.WARNING for finding in findings)
    if as_json:
        print_json({"failed": failed, "warnings": warnings, "findings": findings})
    else:
        out.print(f"{len(findings)} checks: {failed} failed, {warnings} warned")
    raise typer.Exit(1 if failed else 0)


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


def up(
    detach_runs: Annotated[
        bool, typer.Option("--detach-runs", help="At Ctrl-C let the runs go on; the next `up` finishes them.")
    ] = False,
) -> None:
    from pidispatch.app.up import run_up
    from pidispatch.config.environment import read_settings

    run_up(read_settings(), detach_runs=detach_runs, say=lambda line: err.print(plain(line)))


def worker(
    *,
    processes: Annotated[int, typer.Option(min=1, max=16, help="How many processes.")] = 1,
    threads: Annotated[int, typer.Option(min=1, max=64, help="Threads of each process.")] = 4,
    drain: Annotated[
        bool, typer.Option("--drain", help="At SIGTERM start nothing more and wait for this host's runs.")
    ] = False,
    stop_runs: Annotated[
        bool, typer.Option("--stop-runs", help="At SIGTERM stop this host's runs first.")
    ] = False,
) -> None:
    if drain and stop_runs:
        raise typer.BadParameter("give at most one of --drain and --stop-runs")
    from pidispatch.app.up import exec_worker
    from pidispatch.config import AtSigterm
    from pidispatch.config.environment import read_settings

    chosen = AtSigterm.DRAIN if drain else AtSigterm.STOP_RUNS if stop_runs else None
    exec_worker(read_settings(), processes=processes, threads=threads, at_sigterm=chosen)
