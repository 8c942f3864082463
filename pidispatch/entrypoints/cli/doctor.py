"""`doctor`: check the installation, its rows, and that rows and containers agree."""

import typer

from pidispatch.entrypoints.cli.options import AsJson
from pidispatch.entrypoints.cli.output import out, plain, print_json


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
