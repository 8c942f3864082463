"""The list of commands; each lives in a module of its own and imports what it needs only when it runs."""

import typer

from pidispatch.entrypoints.cli import (
    budget,
    cancelling,
    check,
    closing,
    config,
    db,
    demo,
    doctor,
    egress,
    explain,
    forgetting,
    granting,
    image,
    logs,
    manual,
    pausing,
    prices,
    requeueing,
    run,
    runs,
    settings,
    status,
    triggernext,
    triggerrearm,
    triggers,
    triggershow,
    triggertest,
    triggerzone,
    up,
)


def quiet() -> None:
    from pidispatch.app.logs import log_nothing

    log_nothing()


cli = typer.Typer(
    name="pidispatch",
    help=manual.text(""),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
cli.callback(help=manual.text(""))(quiet)
cli.command()(up.up)
cli.command()(up.worker)
cli.command()(demo.demo)
cli.command()(run.run)
cli.command()(runs.runs)
cli.command()(runs.show)
cli.command()(logs.logs)
cli.command()(explain.explain)
cli.command()(status.status)
cli.command()(budget.budget)
cli.command()(prices.prices)
cli.command()(pausing.pause)
cli.command()(pausing.resume)
cli.command()(cancelling.cancel)
cli.command()(requeueing.requeue)
cli.command()(granting.grant)
cli.command("forget-host")(forgetting.forget_host)
cli.command()(doctor.doctor)
cli.command()(config.config)
cli.command()(check.check)
cli.command("set")(settings.set_key)
cli.command("unset")(settings.unset_key)
cli.add_typer(db.db)
cli.add_typer(image.image)
cli.add_typer(egress.egress, name="egress")
triggers.triggers.command()(triggershow.show)
triggers.triggers.command("next")(triggernext.next_instants)
triggers.triggers.command("test")(triggertest.rehearse)
triggers.triggers.command()(triggerrearm.rearm)
triggers.triggers.command()(closing.close)
triggers.triggers.command()(triggerzone.zone)
cli.add_typer(triggers.triggers)
manual.tell(cli)
