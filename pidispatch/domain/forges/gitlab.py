"""GitLab."""

from pidispatch.domain.forges.forge import Forge

GITLAB = Forge(
    name="gitlab",
    pull_request_actions=("open", "update", "reopen", "approved", "close"),
    issue_actions=("close",),
    closed="close",
    issue_changed=None,
    commented=frozenset({"create"}),
    names_added_labels=True,
    label_starts_pull_request=True,
    close_moves_labels=True,
    numbers_apart=True,
    token_names=("GITLAB_TOKEN", "GL_TOKEN", "GLAB_TOKEN", "GITLAB_HOST"),
    secret_names=("GITLAB_WEBHOOK_SECRET",),
    hosts=("gitlab.com",),
)
