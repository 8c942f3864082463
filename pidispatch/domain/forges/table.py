"""List the forges: a new one is its own module and its line here."""

from collections.abc import Mapping

from pidispatch.domain.forges.azure import AZURE
from pidispatch.domain.forges.forge import Forge
from pidispatch.domain.forges.forgejo import FORGEJO
from pidispatch.domain.forges.github import GITHUB
from pidispatch.domain.forges.gitlab import GITLAB

FORGES: Mapping[str, Forge] = {
    forge.name: forge
    for forge in (
        GITHUB,
        GITLAB,
        FORGEJO,
        AZURE,
    )
}
LOCAL = "local"  # the kind of a run in a folder of this host; the other kinds are forges
KINDS = (LOCAL, *FORGES)
WITH_PROJECTS = " or ".join(forge.name for forge in FORGES.values() if forge.items_in_projects)
REVIEWED = " or ".join(forge.name for forge in FORGES.values() if forge.tells_review_state)
