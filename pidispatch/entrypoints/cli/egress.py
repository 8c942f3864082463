"""`egress`: which hosts runs may reach."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pidispatch.entrypoints.cli.output import AsJson, out, plain, print_json, print_table

if TYPE_CHECKING:
    from pidispatch.app.egress import EgressState
    from pidispatch.domain.egress.allowlist import AllowedHost

egress = typer.Typer(invoke_without_command=True, no_args_is_help=False)


@egress.callback()
def listing(context: typer.Context, as_json: AsJson = False) -> None:
    """List what runs may reach, from which line of the file, and the presets that a file may name."""
    if context.invoked_subcommand is not None:
        return
    from pidispatch.app.egress import state
    from pidispatch.config.environment import read_settings
    from pidispatch.domain.egress.allowlist import PRESETS

    found = state(read_settings())
    if as_json:
        print_json({**_document(found), "presets": {name: list(hosts) for name, hosts in PRESETS.items()}})
        return
    _print(found)
    out.print()
    print_table(("preset", "hosts"), [(f"@{name}", " ".join(hosts)) for name, hosts in PRESETS.items()])


@egress.command()
def check(
    host: Annotated[str, typer.Argument(metavar="HOST[:PORT]", help="A host; its port is 443 unless given.")],
    as_json: AsJson = False,
) -> None:
    """Say whether every run may reach a host, by its name: exit code 0 for yes, 1 for no."""
    from pidispatch.app.egress import judge
    from pidispatch.config.environment import read_settings

    target, ruling = judge(read_settings(), host)
    if as_json:
        entry = None if ruling.entry is None else _entry(ruling.entry)
        print_json(
            {"target": str(target), "allowed": ruling.allowed, "reason": ruling.reason, "entry": entry}
        )
    else:
        by = f", {_where(ruling.entry)}" if ruling.entry is not None else ""
        word = "allowed" if ruling.allowed else "blocked"
        out.print(plain(f"{target}: {word} ({ruling.reason}{by})"))
    raise typer.Exit(0 if ruling.allowed else 1)


def _print(found: "EgressState") -> None:
    if found.off_because is not None:
        out.print(plain(f"egress is off: a run may reach any public host, because: {found.off_because}"))
        return
    entries = found.allowlist.entries
    if not found.found:
        out.print(plain(f"nothing: there is no {found.file}"))
    elif not entries:
        out.print(plain(f"nothing: {found.file} has no entry"))
    else:
        out.print(plain(str(found.file)))
        print_table(
            ("line", "entry", "ports", "preset"),
            [(entry.line, str(entry), _ports(entry), _preset(entry)) for entry in entries],
        )


def _document(found: "EgressState") -> dict[str, Any]:
    return {
        "on": found.off_because is None,
        "off_because": found.off_because,
        "file": str(found.file),
        "found": found.found,
        "entries": [_entry(entry) for entry in found.allowlist.entries],
    }


def _entry(entry: "AllowedHost") -> dict[str, Any]:
    return {
        "line": entry.line,
        "host": entry.host,
        "subdomains": entry.subdomains,
        "port": entry.port,
        "preset": entry.preset,
    }


def _where(entry: "AllowedHost") -> str:
    return f"line {entry.line}: {_preset(entry) or entry}"


def _ports(entry: "AllowedHost") -> str:
    from pidispatch.domain.egress.allowlist import USUAL_PORTS

    return " ".join(map(str, USUAL_PORTS if entry.port is None else (entry.port,)))


def _preset(entry: "AllowedHost") -> str | None:
    return None if entry.preset is None else f"@{entry.preset}"
