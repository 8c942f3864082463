"""Forgejo, and Gitea, whose words it kept."""

from pidispatch.domain.forges.forge import Forge

FORGEJO = Forge(
    name="forgejo",
    pull_request_actions=("label_updated", "opened", "synchronized", "reopened", "closed"),
    issue_actions=("closed",),
    closed="closed",
    labelled="label_updated",
    issue_changed=frozenset({"opened", "label_updated", "reopened"}),
    commented=frozenset({"created"}),
    token_names=(
        "FORGEJO_TOKEN",
        "GITEA_SERVER_TOKEN",
        "GITEA_TOKEN",
        "GITEA_INSTANCE_URL",
        "FORGEJO_HOST",
    ),
    secret_names=("FORGEJO_WEBHOOK_SECRET",),
)
