"""`up` and `worker`: start what does the work."""

from typing import Annotated

import typer

from pidispatch.entrypoints.cli.output import err, plain


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
