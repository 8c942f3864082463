"""Tell a run why it does not reach a host, and what an operator would write to change that."""

from pidispatch.domain.egress import Entry, Reason
from pidispatch.domain.hostname import Target

STATUS = {Reason.MALFORMED: 400, Reason.NO_SUCH_HOST: 502, Reason.UNREACHABLE: 502, Reason.TOO_MANY: 503}


def in_words(target: Target, reason: Reason, entry: Entry | None) -> str:
    match reason:
        case Reason.NOT_LISTED:
            line = str(target).removesuffix(":443").removesuffix(":80")
            return f"{target.host} is not on the list of hosts that this run may reach; the line `{line}` in egress-allowlist.conf, or in the trigger's run.egress, would let it through"
        case Reason.PORT:
            return f"port {target.port} of {target.host} is not on the list (`{entry}` is); the line `{target}` would let it through"
        case Reason.PRIVATE_ADDRESS:
            return f"{target.host} is at an address of this machine, its network or another that is not public; nothing lets a run reach it (a model's endpoint is set up as a provider)"
        case Reason.NO_SUCH_HOST:
            return f"{target.host} was not found"
        case Reason.TOO_MANY:
            return "this run has too many connections open; close some"
        case Reason.MALFORMED:
            return "the target is no host and port"
        case _:
            return f"{target} could not be reached"
