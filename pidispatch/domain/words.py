"""Every reason and every cause that a record, a refused call or a log may name: one row for each word.

A row says where the word is used, and what it means there; which gate of admission it belongs to; and whether what it
names heals by itself. What opens a breaker, what `explain` shows, the texts of refused model calls and the page
docs/words.md derive from the rows. A constant has its word's name, in capitals and with `_` for `-`.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Self


class GateName(StrEnum):
    """What admission looks at; `explain` shows them in the order of its ladder."""

    SETTINGS = "settings"
    BREAKER = "breaker"
    ONE_SHOT = "one-shot"
    IMAGE = "image"
    MODELS = "models"
    PROVIDER = "provider"
    FOLDER = "folder"
    DISK = "disk"
    PAUSE_WINDOWS = "pause-windows"
    RUN_CAP = "run-cap"
    PAUSE = "pause"
    SLOTS = "slots"
    HOST_CAPACITY = "host-capacity"
    WINDOWS = "windows"


class Use(StrEnum):
    """Where a word is said."""

    END = "end"
    WHY = "why"
    CAUSE = "cause"
    HOLD = "hold"
    CALL = "call"
    GO = "go"
    REMARK = "remark"
    DELIVERY = "delivery"
    EVENT = "event"
    REQUEST = "request"
    SESSION = "session"


class Word(str):
    """A word, and what it means wherever it is used; everywhere else it is the plain text it is.

    `heals`: false for what an operator must mend before such a run can start. Only that counts for a breaker: caps,
    pauses and cancels say nothing of a trigger.
    """

    __slots__ = ("gate", "heals", "meanings")
    gate: GateName | None
    heals: bool
    meanings: Mapping[Use, str]

    def __new__(cls, word: str, gate: GateName | None = None, *, heals: bool = True, **meanings: str) -> Self:
        """`meanings` are named as the members of `Use`: `cause="a disk is nearly full"`."""
        self = super().__new__(cls, word)
        self.gate, self.heals = gate, heals
        self.meanings = {Use(use): said for use, said in meanings.items()}
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process, or a copy, gets the text alone."""
        return str, (str(self),)


_GRANT = "`pidispatch grant` lets it go on from here as a new run"

# fmt: off
# What holds a run back before it starts, or refuses it for good, in the order of the gates.
SETTINGS_OVERLAY_INVALID = Word("settings-overlay-invalid", GateName.SETTINGS, heals=False, end="settings.json, or a limits file, is not valid: nothing starts until it is put right")
BREAKER_OPEN = Word("breaker-open", GateName.BREAKER, end="its trigger failed again and again and is held back", delivery="its trigger failed again and again and is held back")
BREAKER_COUNTING = Word("breaker-counting", GateName.BREAKER, cause="an ending of its trigger is being counted")
ONCE_ALREADY_SPENT = Word("once-already-spent", GateName.ONE_SHOT, end="its trigger may fire once, and has")
BY_ANOTHER_RUN = Word("by-another-run", why="another run spent the one-shot")
BY_A_MARK_IN_THE_FILE = Word("by-a-mark-in-the-file", why="the entry in the triggers file is marked as used up")
DOCKER_UNREACHABLE = Word("docker-unreachable", GateName.IMAGE, cause="the Docker engine of its host does not answer")
JOB_IMAGE_MISSING = Word("job-image-missing", GateName.IMAGE, heals=False, end="its image is not on the host that looked")
JOB_IMAGE_WRONG_ARCH = Word("job-image-wrong-arch", GateName.IMAGE, heals=False, end="its image is for another kind of machine", why="its image is for another kind of machine")
JOB_IMAGE_REPLICAS_UNSUPPORTED = Word("job-image-replicas-unsupported", GateName.IMAGE, heals=False, end="it is one of several copies, and its image does not declare `replicas`")
JOB_IMAGE_COMMANDS_UNSUPPORTED = Word("job-image-commands-unsupported", GateName.IMAGE, heals=False, end="it has a command, and its image does not declare `commands`")
JOB_IMAGE_EXCLUDE_TOOLS_UNSUPPORTED = Word("job-image-exclude-tools-unsupported", GateName.IMAGE, heals=False, end="tools are taken away from it, and its image does not declare `excludeTools`")
MODEL_NOT_ALLOWED = Word("model-not-allowed", GateName.MODELS, heals=False, end="its own model, or one that it called, is not on its list of models", call="its trigger or the installation does not list this model among those allowed")
PROVIDER_UNCONFIGURED = Word("provider-unconfigured", GateName.PROVIDER, heals=False, end="its provider cannot be called")
PROVIDER_UNKNOWN = Word("provider-unknown", why="the gateway does not know the provider")
NO_CREDENTIAL = Word("no-credential", why="the provider has no key")
OAUTH_LOGIN = Word("oauth-login", why="pi has a login for the provider, which is no key")
COST_CAP_UNENFORCEABLE = Word("cost-cap-unenforceable", GateName.PROVIDER, heals=False, end="it has a cap of dollars, and a model that has no known price", call="the run has a cap of dollars, and the model no known price: name it in the prices file")
NO_PRICE = Word("no-price", why="its own model has no known price")
GATEWAY_UNREACHABLE = Word("gateway-unreachable", GateName.PROVIDER, cause="the gateway of its host does not answer", session="the gateway could not be asked to hide secrets in it")
PROVIDER_BUSY = Word("provider-busy", GateName.PROVIDER, cause="its provider is busy")
LOCAL_FOLDER_MISSING = Word("local-folder-missing", GateName.FOLDER, heals=False, end="its folder is not there", delivery="its folder is not there")
LOCAL_FOLDER_NOT_A_DIRECTORY = Word("local-folder-not-a-directory", GateName.FOLDER, heals=False, end="its folder is no directory", delivery="its folder is no directory")
LOCAL_FOLDER_UNREADABLE = Word("local-folder-unreadable", GateName.FOLDER, heals=False, end="the worker's user may not read its folder", delivery="the worker's user may not read its folder")
JOB_USER_UNMAPPABLE = Word("job-user-unmappable", GateName.FOLDER, heals=False, end="its folder belongs to root, or to a user that the worker may not start jobs as", delivery="its folder belongs to root, or to a user that the worker may not start jobs as")
NOT_A_GIT_ROOT = Word("not-a-git-root", GateName.FOLDER, heals=False, end="its folder is not the root of a git repository")
NO_COMMIT = Word("no-commit", GateName.FOLDER, heals=False, end="the repository has no commit yet", why="the repository had no commit, or none that could be read, when the run was admitted")
DIRTY = Word("dirty", GateName.FOLDER, heals=False, end="its folder has changes that are not committed")
SKILLS_DIR_MISSING = Word("skills-dir-missing", GateName.FOLDER, heals=False, end="its directory of skills is not there")
SKILLS_DIR_UNUSABLE = Word("skills-dir-unusable", GateName.FOLDER, heals=False, end="its directory of skills cannot be given to a box")
NOT_REGULAR = Word("not-regular", why="a file of the skills is no regular file")
TOO_LARGE = Word("too-large", why="a file of the skills, or all of them together, is too large", session="larger than `PI_SESSION_MAX_BYTES`")
TOO_MANY = Word("too-many", why="there are too many files of skills")
TOO_DEEP = Word("too-deep", why="the skills have too many levels of directories")
BAD_NAME = Word("bad-name", why="a file of the skills has a name that is not taken")
NO_SKILL = Word("no-skill", why="there is no such skill, or none at all")
UNREADABLE = Word("unreadable", why="the directory of skills cannot be read")
DISK_LOW = Word("disk-low", GateName.DISK, cause="a disk is nearly full: free some room, `pidispatch doctor` names it", why="it wrote at least half of what went, by the kernel's count of what its processes wrote; or was the only one that writes there, where that count cannot be read")
DISK_LOW_SHARED = Word("disk-low-shared", why="it may have filled the disk: nobody is seen to have written it (space can be reserved without writing, and names are counted for nobody). The oldest run that writes there goes first, the next one only while the room goes on falling")
BOX_FILES_TOO_LARGE = Word("box-files-too-large", why="it left more than `PIDISPATCH_BOX_FILES` in its outbox and session, where the kernel keeps no bound")
PAUSE_WINDOW = Word("pause-window", GateName.PAUSE_WINDOWS, cause="a pause window of the calendar is open")
CONFIG_REFUSED = Word("config-refused", GateName.RUN_CAP, heals=False, end="what is configured does not hold together")
DOLLAR_WINDOW_WITHOUT_RUN_CAP = Word("dollar-window-without-run-cap", why="dollars of a day, week or month are capped, and those of one run are not (`PI_MAX_COST_USD`)")
PAUSED = Word("paused", GateName.PAUSE, cause="an operator paused everything, or one of its scopes")
SCOPE = Word("scope", GateName.SLOTS, cause="another run is in its folder, or its scope has as many as it may have", hold="another run is in its folder, or its scope has as many as it may have")
CAP_HELD = Word("cap-held", GateName.WINDOWS, cause="what is left of a cap is held by runs that have not ended")
OVER_BUDGET = Word("over-budget", GateName.WINDOWS, end="everything together has had its runs of the day, week or month")
SOFT_HOLD = Word("soft-hold", GateName.WINDOWS, end="more than `PI_SOFT_HOLD_PCT` of such a cap is used")
SCOPE_CAP = Word("scope-cap", GateName.WINDOWS, end="its folder, repository or model has had its runs of the day, week or month")
PROJECT_CAP = Word("project-cap", GateName.WINDOWS, end="its project has had its runs of the day, week or month")
DAILY_TOKEN_CAP = Word("daily-token-cap", GateName.WINDOWS, end="the day's tokens are used up")
DOLLAR_CAP = Word("dollar-cap", GateName.WINDOWS, end="the dollars of the day, week or month do not suffice for it")
DAY_CAP = Word("day-cap", why="the window of the day said so")
WEEK_CAP = Word("week-cap", why="the window of the week said so")
MONTH_CAP = Word("month-cap", why="the window of the month said so")

# What a run waits for.
CATCH_UP = Word("catch-up", cause="it is made up for, and what is made up waits up to a quarter of an hour", delivery="made up for: it waits up to a quarter of an hour")
WAIT = Word("wait", cause="what its trigger waits for is not so yet")
NEVER_STARTED = Word("never-started", cause="its box ended without asking for its go: another is started")
PROVIDER_FAILED = Word("provider-failed", cause="its provider failed, and nothing was billed: it is tried once more")
SERVICE_UNREACHABLE = Word("service-unreachable", cause="a part of the installation did not answer while it was prepared")
EVERYTHING_PAUSED = Word("everything-paused", hold="an operator paused everything")
SCOPE_PAUSED = Word("scope-paused", hold="an operator paused one of its scopes")
NO_WORKER = Word("no-worker", hold="no worker lives on its host")
HOST_FULL = Word("host-full", hold="its host has as many runs as it may have")
A_WORKER_TO_LOOK = Word("a-worker-to-look", hold="nothing: its turn comes")
WAIT_REFUSED = Word("wait-refused", end="a check said never")
WAIT_EXPIRED = Word("wait-expired", end="the last check that `PI_WAIT_MAX_CHECKS` or `PI_WAIT_MAX_MS` allow did not say go. Time counts from the first check that did not, not while an `after` lies ahead")
WAIT_UNANSWERABLE = Word("wait-unanswerable", heals=False, end="`PI_WAIT_MAX_FAULTS` faults of its checks in a row")
WAIT_PROFILE_UNKNOWN = Word("wait-profile-unknown", heals=False, end="the host that looked has no such profile")
WAIT_AFTER_BEYOND_MAX = Word("wait-after-beyond-max", end="its `after` lies more than `PI_WAIT_AFTER_MAX_MS` ahead")
WAIT_SUPERSEDED = Word("wait-superseded", end="another run of the same event and entry is asked after, or was let go in the last 15 minutes; `explain` names it")
WAIT_UNREADABLE = Word("wait-unreadable", end="a newer version wrote what it waits for")

# What a run ended with after it was admitted.
COMPLETED = Word("completed", end="its box ended well, which does not say that the task is done")
OPERATOR_CANCEL = Word("operator-cancel", end="somebody cancelled it")
SUPERSEDED = Word("superseded", end="a newer request for the same took its place")
OPERATOR_STOP = Word("operator-stop", end="a model call came, or was cut, after `pidispatch pause --now`")
WORKER_ABORT = Word("worker-abort", end="it was stopped; the second word says why")
SHUTDOWN = Word("shutdown", why="its worker was told to stop the runs of its host")
DEADLINE = Word("deadline", why="it ran for as long as it may")
WORKSPACE_GONE = Word("workspace-gone", heals=False, end="its folder was removed, replaced or given to another user since its admission, or nobody can tell")
COST_CAP = Word("cost-cap", end="a model call might have passed the run's dollars", call=f"it could pass the run's cap of dollars; {_GRANT}")
TOKEN_CAP = Word("token-cap", end="a model call might have passed its tokens", call=f"it could pass the run's cap of tokens, which counts all that each call sends, cached or not; {_GRANT}")
TURN_CAP = Word("turn-cap", end="a model call came when as many as it may have turns had been answered, or may have been, or were open", call=f"it has made as many model calls as it may; {_GRANT}")
MODEL_POLICY_UNENFORCEABLE = Word("model-policy-unenforceable", heals=False, end="a model call may be answered by models that nobody can tell, and the run has a list", call="only listed models may answer it, and what it asks for may name others")
CLOSED = Word("closed", call="it is over or being stopped, or was never given its go")
STOPPED = Word("stopped", call="an operator stopped all model calls; `pidispatch resume` lets them through again")
PROVIDER_AUTH_REFUSED = Word("provider-auth-refused", heals=False, end="its provider refuses the key")
RUNNER_POLICY = Word("runner-policy", end="the runner in the box stopped it; the second word is the runner's own")
TOKEN_BUDGET = Word("token-budget", why="the runner stopped at the cap of tokens")
TURN_BUDGET = Word("turn-budget", why="the runner stopped at the cap of turns")
INFRA = Word("infra", end="what is around the agent failed: its provider, the box, the runner")
LOST = Word("lost", end="nobody knows what became of its box")
HOST_FORGOTTEN = Word("host-forgotten", why="`pidispatch forget-host` ended it")
GO_ANSWER_LOST = Word("go-answer-lost", why="its go was given, and the box did not hear of it")
POISONED = Word("poisoned", end="it took three workers with it")
WORKER_SILENT = Word("worker-silent", cause="the worker that prepared it fell silent: another one does", why="the worker that had it fell silent over it")
WORKER_LEFT = Word("worker-left", cause="the worker that prepared it was told to end: another one does", why="its worker was told to end; it counts against nobody")
KILLED = Word("killed", end="its box was killed, and not by us")
SIGKILL = Word("sigkill", why="by SIGKILL")
SIGTERM = Word("sigterm", why="by SIGTERM")
OOM_KILLED = Word("oom-killed", end="its box used all the memory that it may have")
REPORT_UNVERIFIED = Word("report-unverified", end="its box said that all is well without the signed report that its image promises")
UNKNOWN = Word("unknown", end="nobody could tell how its box ended")
EXIT_CODE_UNREADABLE = Word("exit-code-unreadable", why="the engine did not tell the exit code")
UNKNOWN_EXIT_CODE = Word("unknown-exit-code", end="its box ended with an exit code that no runner uses")
CONTAINER_NEVER_STARTED = Word("container-never-started", end="its box could not be made or never asked for its go; the second word says why")
ENGINE_REFUSED = Word("engine-refused", why="the Docker engine refused to make or start the box")
ENTRYPOINT_MISSING = Word("entrypoint-missing", why="the image's entrypoint is not in it")
ENTRYPOINT_NOT_EXECUTABLE = Word("entrypoint-not-executable", why="the image's entrypoint may not be executed")
DISK_FULL = Word("disk-full", why="there was no room to make the box, again and again")
NAME_TAKEN = Word("name-taken", why="a container of the box's name exists")
MOUNT_DIFFERS = Word("mount-differs", why="something exchanged the box's own files while it started")
MOUNT_UNSEEN = Word("mount-unseen", why="nobody can tell what the box has mounted")
JOB_FILES_FAILED = Word("job-files-failed", why="the files for the box could not be written")
EXITED_EARLY = Word("exited-early", why="the box ended by itself before it asked for its go")
TOO_MANY_STARTS = Word("too-many-starts", why="it was tried as often as it may be")

# Why a box that asks for its go gets none.
MALFORMED = Word("malformed", go="it names no container")
STALE_ATTEMPT = Word("stale-attempt", go="it is of an earlier attempt")
DATABASE_AWAY = Word("database-away", go="the database does not answer")
REFUSED = Word("refused", go="the run is stopped, has had its go, or has another container")

# Where a completed run may have fallen short.
NOTHING_DONE = Word("nothing-done", remark="it called no model, changed nothing and said nothing of what it did")
ANSWER_CUT = Word("answer-cut", remark="its last answer was cut at the limit of tokens")
TOOLS_FAILED = Word("tools-failed", remark="every tool that the agent used failed")
SKILL_MISSING = Word("skill-missing", remark="no skill has the name of its flow")

# What became of a delivery, or of an instant of a schedule, beside its answer.
SAME_BODY = Word("same-body", delivery="the same body came under another id")
SAME_OCCURRENCE = Word("same-occurrence", delivery="another source told of the same occurrence")
COALESCED = Word("coalesced", delivery="a run that somebody else asked for within the window answers for the instant")
WHILE_RUNNING = Word("while-running", delivery="a run of the schedule is there, and its entry says to skip the instant then")
LATE = Word("late", delivery="it is late, and its entry says `missed: skip`")
REMOVED = Word("removed", delivery="its entry, or its host, is gone")
MADE_UP_BY_A_NEWER = Word("made-up-by-a-newer", delivery="a newer instant makes up for it (`missed: once`)")
TOO_MANY_MISSED = Word("too-many-missed", delivery="beyond the newest 24 (`missed: all`)")
NOT_ENFORCED_YET = Word("not-enforced-yet", delivery="its entry has a bound that this version does not keep")
NO_TEXT = Word("no-text", delivery="a name in its entry cannot be stored as text")

# Why an event starts nothing, or one entry of the triggers file does not match it.
MISSING_SENDER_ID = Word("missing-sender-id", event="it names no sender")
SELF = Word("self", event="this installation's own account did it")
MISSING_ISSUE_NUMBER = Word("missing-issue-number", event="it names no number of an issue")
MISSING_PULL_REQUEST = Word("missing-pull-request", event="it names no number of a pull request")
UNHANDLED_EVENT = Word("unhandled-event", event="its names are empty or too long")
OTHER_FORGE = Word("other-forge", event="the entry waits for another forge, or for the clock")
DISARMED = Word("disarmed", event="the entry was used up")
OTHER_EVENT = Word("other-event", event="the entry waits for another kind of event")
NO_REPOSITORY = Word("no-repository", event="the event names no repository")
OTHER_REPOSITORY = Word("other-repository", event="the entry waits for another repository")
ACTION_NOT_ACTIONABLE = Word("action-not-actionable", event="the action does not start it")
NO_MATCHING_CLOSE_TRIGGER = Word("no-matching-close-trigger", event="the entry waits for another action, such as the close of an issue")
NO_MATCHING_PR_TRIGGER = Word("no-matching-pr-trigger", event="the entry waits for another action or label of a pull request")
CLOSE_NUMBER_NOT_MATCHED = Word("close-number-not-matched", event="the entry waits for another number")
NO_ALLOWLISTED_LABEL = Word("no-allowlisted-label", event="the labels are not those that the entry waits for")
NO_LABEL_CHANGE = Word("no-label-change", event="the event added no label")
NO_TRIGGER_PHRASE = Word("no-trigger-phrase", event="the comment does not hold the entry's phrase as a word of its own")
NO_REVIEW_BODY = Word("no-review-body", event="the review only comments, and says nothing of its own")
REVIEW_STATE_NOT_MATCHED = Word("review-state-not-matched", event="the entry waits for a review with another result")
AUTHORITY_NOT_ASKED = Word("authority-not-asked", event='all else matches; whether the person may start runs is not said: write "allowed": true or false')
CLOSER_NOT_ALLOWED = Word("closer-not-allowed", event="who closed it may not start runs")
REVIEW_AUTHOR_NOT_ALLOWED = Word("review-author-not-allowed", event="who wrote the review may not start runs")
PR_AUTHOR_NOT_ALLOWED = Word("pr-author-not-allowed", event="who opened the pull request, or wrote there, may not start runs")
AUTHOR_NOT_ALLOWED = Word("author-not-allowed", event="who wrote it may not start runs")

# Why a request for a further run, which an agent left in its outbox, became none.
CHAIN_COUNT_CAP = Word("chain-count-cap", request="it is beyond the first `PI_CHAIN_MAX_PER_JOB`; it was not opened")
CHAIN_NOT_REGULAR_FILE = Word("chain-not-regular-file", request="it is a link, a pipe, a directory, a device, or cannot be read")
CHAIN_OVERSIZE = Word("chain-oversize", request="it has more than 4096 bytes")
CHAIN_PARSE_ERROR = Word("chain-parse-error", request="it is not JSON in UTF-8, or not an object")
CHAIN_COMMAND_REFUSED = Word("chain-command-refused", request="it has a `command`, whatever its value")
CHAIN_BAD_FLOW_NAME = Word("chain-bad-flow-name", request="it has no `flow`, or one that is no name of a skill (1 to 64 of `a-z0-9_-`, a letter or digit at both ends)")
CHAIN_BAD_TASK = Word("chain-bad-task", request="it has no `task`, or one that is no text")
CHAIN_DEPTH_CAP = Word("chain-depth-cap", request="it would go deeper than `PI_CHAIN_DEPTH_MAX`")
CHAIN_GATE_DENY = Word("chain-gate-deny", request="it asks for a skill that may not be asked for: `no-skill`, `not-allowed`, or `no-commit`")
CHAIN_TREE_CAP = Word("chain-tree-cap", request="its tree has no room for one more run")
CHAIN_SPEND_CAP = Word("chain-spend-cap", request="its tree has no room for what one more run may spend")
CHAIN_COLLECT_ERROR = Word("chain-collect-error", request="it could not be judged; with `*` for a number: the outbox cannot be listed, or has more than 10,000 entries")
NOT_ALLOWED = Word("not-allowed", why="the skill does not say that it may be asked for")
NO_RUN_CAP = Word("no-run-cap", why="one run may spend any amount, so its tree cannot be bounded")
NOT_LOCAL = Word("not-local", why="a run of a forge asks for none")

# Whether a stored conversation was resumed, or why it was not kept.
RESUMED = Word("resumed", session="it went on with the conversation")
ABSENT = Word("absent", session="there was none")
EXPIRED = Word("expired", session="it was older than it may be")
CONVERSATION_TOO_OLD = Word("conversation-too-old", session="the conversation had begun too long ago")
RESUME_CHAIN_TOO_LONG = Word("resume-chain-too-long", session="it was gone on with too often")
CONTEXT_TOO_FULL = Word("context-too-full", session="the model's context had too little room left")
COMPACTION_SUMMARY_EMPTY = Word("compaction-summary-empty", session="it was to be summed up, and the summary was empty")
UNPARSEABLE = Word("unparseable", session="it could not be read")
NOT_A_REGULAR_FILE = Word("not-a-regular-file", session="the agent made something else of it")
KEY_NOT_A_DIRECTORY = Word("key-not-a-directory", session="what should hold it is no directory")
TRANSCRIPT_DIVERTED = Word("transcript-diverted", session="it led to another place")
VENUE_CHANGED = Word("venue-changed", session="it is of another folder or item")
PI_VERSION_CHANGED = Word("pi-version-changed", session="another version of pi wrote it")
NO_PI_VERSION = Word("no-pi-version", session="its image does not say which pi it has")
TRANSCRIPT_REPLACED = Word("transcript-replaced", session="it was exchanged while the run was under way")
LOCKED = Word("locked", session="another run had it")
PROMOTE_FAILED = Word("promote-failed", session="it could not be put into its place")
DISABLED = Word("disabled", session="the image keeps none")
# fmt: on

WORDS: Mapping[str, Word] = {str(each): each for each in tuple(globals().values()) if isinstance(each, Word)}
WILL_NOT_HEAL = frozenset(each for each in WORDS.values() if not each.heals)


def words_of(use: Use) -> Iterator[Word]:
    """Those that are used so, in the order of their rows."""
    return (each for each in WORDS.values() if use in each.meanings)


def meaning(word: str, use: Use) -> str | None:
    """What the word means there; None for one that has no meaning there, or is of a newer version."""
    row = WORDS.get(word)
    return None if row is None else row.meanings.get(use)


def gate_of(word: str | None) -> GateName | None:
    """The gate at which a run with this word stopped; None when the word does not tell."""
    row = WORDS.get(word or "")
    return None if row is None else row.gate
