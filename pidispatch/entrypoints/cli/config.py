"""`config`: the settings in force."""

from pidispatch.entrypoints.cli.options import AsJson
from pidispatch.entrypoints.cli.output import print_json, print_table


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
