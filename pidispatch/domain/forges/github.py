"""GitHub."""

from pidispatch.domain.forges.forge import REVIEW_SUBMITTED, Forge

GITHUB = Forge(
    name="github",
    pull_request_actions=("labeled", "opened", "synchronize", "reopened", REVIEW_SUBMITTED, "closed"),
    issue_actions=("closed",),
    closed="closed",
    labelled="labeled",
    issue_changed=frozenset({"opened", "labeled", "reopened"}),
    commented=frozenset({"created"}),
    approving_issue_actions=frozenset({"labeled", "reopened"}),
    approving_pull_request_actions=frozenset({"labeled"}),
    tells_review_state=True,
    token_names=("GITHUB_TOKEN", "GH_TOKEN"),
    secret_names=("GITHUB_PAT", "GITHUB_APP_PRIVATE_KEY"),
    hosts=(
        "github.com",
        "api.github.com",
        "codeload.github.com",
        "uploads.github.com",
        "raw.githubusercontent.com",
        "objects.githubusercontent.com",
        "release-assets.githubusercontent.com",
        "media.githubusercontent.com",
        "github-cloud.githubusercontent.com",
    ),
)
