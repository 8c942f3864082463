"""Azure DevOps."""

from pidispatch.domain.forges.forge import Forge

AZURE = Forge(
    name="azure",
    pull_request_actions=("created", "updated"),
    no_issues="what closes a work item differs by process template",
    issue_changed=frozenset({"created", "updated"}),
    commented=None,
    names_added_labels=True,
    has_pull_request_labels=False,
    numbers_apart=True,
    items_in_projects=True,
    token_names=("AZURE_TOKEN", "AZURE_DEVOPS_EXT_PAT", "SYSTEM_ACCESSTOKEN", "AZURE_DEVOPS_ORG_URL"),
    secret_names=("AZURE_WEBHOOK_SECRET",),
    hosts=("dev.azure.com", ".visualstudio.com"),
)
