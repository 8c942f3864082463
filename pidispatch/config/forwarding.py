"""Refuse to forward a variable into the box that pidispatch itself sets there or keeps out of it."""

import re

from pidispatch.config.grammar import Unwanted, comma_list

# Both names under which each forge's tools look for a token, and the host the token is meant for.
MINTED = {
    "github": ("GITHUB_TOKEN", "GH_TOKEN"),
    "gitlab": ("GITLAB_TOKEN", "GL_TOKEN", "GLAB_TOKEN", "GITLAB_HOST"),
    "forgejo": ("FORGEJO_TOKEN", "GITEA_SERVER_TOKEN", "GITEA_TOKEN", "GITEA_INSTANCE_URL", "FORGEJO_HOST"),
    "azure": ("AZURE_TOKEN", "AZURE_DEVOPS_EXT_PAT", "SYSTEM_ACCESSTOKEN", "AZURE_DEVOPS_ORG_URL"),
}
MINTED_NAMES = frozenset(name for names in MINTED.values() for name in names)

WORKER_SECRETS = frozenset(
    {"DATABASE_URL", "REDIS_URL", "VALKEY_URL", "VALKEY_PASSWORD", "PGPASSWORD", "PGPASSFILE"}
    | {"GITHUB_PAT", "GITHUB_APP_PRIVATE_KEY", "WEBHOOK_SECRET"}
    | {f"{forge}_WEBHOOK_SECRET" for forge in ("GITLAB", "FORGEJO", "AZURE")}
)

BOX_NAMES = frozenset(
    {
        "HOME",
        "PI_PROVIDER",
        "PI_MODEL",
        "PI_MAX_TURNS",
        "PI_MAX_TOKENS",
        "PI_JOB_ID",
        "PI_OFFLINE",
        "PI_TELEMETRY",
    }
    | {
        "PI_SKIP_VERSION_CHECK",
        "PI_FLOW",
        "PI_COMMAND",
        "PI_EXCLUDE_TOOLS",
        "PI_CODING_AGENT_DIR",
        "PI_SESSION_FILE",
    }
    | {"PI_PACKAGES", "PI_ALLOWED_MODELS", "PI_MAX_COST_MICROS", "PI_EXIT_AUTH", "PI_GLOBAL_ALLOW_EXTENSIONS"}
)
BOX_PREFIX = "PI_DISPATCH_"


def forwarded_names(text: str) -> tuple[str, ...]:
    """Names of host variables to hand to the box, none of which may override what pidispatch puts there."""
    names = comma_list(text)
    malformed = [name for name in names if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)]
    if malformed:
        raise Unwanted("names of variables between commas, without their values", hide=True)
    _refuse(names, MINTED_NAMES, "the token that pidispatch mints for each job would be overridden")
    _refuse(names, WORKER_SECRETS, "it is a secret of the worker")
    taken = frozenset(name for name in names if name in BOX_NAMES or name.startswith(BOX_PREFIX))
    _refuse(names, taken, "pidispatch sets it in the box itself")
    return names


def _refuse(names: tuple[str, ...], refused: frozenset[str], reason: str) -> None:
    found = [name for name in names if name in refused]
    if found:
        raise Unwanted(f"it without {', '.join(found)}: {reason}")
