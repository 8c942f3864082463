"""Say what a forge is: all that differs between them, as one record."""

from dataclasses import dataclass

REVIEW_SUBMITTED = "review_submitted"
REVIEW_STATES = ("approved", "changes_requested", "commented")


@dataclass(frozen=True, slots=True, kw_only=True)
class Forge:
    """One forge. Actions are in its own spelling. What a new forge does not say is what asks for the most proof."""

    name: str  # as `run.kind`, and before the colon of a scope

    # What `on.action` may name, of a pull request and of an issue; `no_issues` is why an issue's event starts nothing.
    pull_request_actions: tuple[str, ...]
    issue_actions: tuple[str, ...] = ()
    no_issues: str = ""
    # The actions that say that something was closed, and that a label was put on; None where it has none.
    closed: str | None = None
    labelled: str | None = None
    # The actions on which an entry of type label looks at an issue, and of type comment at a comment; None is any.
    issue_changed: frozenset[str] | None = frozenset()
    commented: frozenset[str] | None = frozenset()

    names_added_labels: bool = False  # its events tell which labels were added: only those are tested
    has_pull_request_labels: bool = True
    label_starts_pull_request: bool = False  # there, the label is what matched and not the action
    # The actions that approve a run by themselves, as a label that was put on does; all else asks who did it. An issue
    # that was opened with its label proves nothing: a form may have put it on for a stranger.
    approving_issue_actions: frozenset[str] = frozenset()
    approving_pull_request_actions: frozenset[str] = frozenset()
    close_moves_labels: bool = False  # one event of an issue may do both
    tells_review_state: bool = False
    numbers_apart: bool = False  # issue 5 and pull request 5 are two things
    items_in_projects: bool = False  # a work item names no repository, so the entry does

    # Names of a box's variables that hold its token or say for which host that is, and of the worker's that stay here.
    token_names: tuple[str, ...] = ()
    secret_names: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()  # of its public service: the egress preset of its name

    def closes(self, action: str) -> bool:
        return action == self.closed or (action in self.issue_actions)
