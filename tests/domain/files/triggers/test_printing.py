"""Any triggers, printed and read again, mean the same."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from pidispatch.domain.forges.forge import REVIEW_STATES
from pidispatch.domain.forges.table import FORGES
from pidispatch.domain.runs.ask import WaitAfter, WaitProfile
from pidispatch.domain.triggers.grammar.file import parse_triggers
from pidispatch.domain.triggers.grammar.printing import write_triggers
from pidispatch.domain.triggers.grammar.run import BACKENDS, TOOL_NAMES
from pidispatch.domain.triggers.trigger import (
    CommentEvent,
    Cron,
    Disarmed,
    IssueEvent,
    LabelEvent,
    Labels,
    Missed,
    PullRequestEvent,
    Trigger,
    Triggers,
    WhileRunning,
)
from tests.domain.files.triggers.builders import AZURE, BY_NAME, changed, parse
from tests.support.asking import work_of

# Text that begins and ends with something to be seen: what is refused for its edges is tried elsewhere.
EDGE = st.characters(exclude_categories=["C", "Z"])
TEXT = EDGE | st.tuples(EDGE, st.text(st.characters(exclude_categories=["Cs"]), max_size=10), EDGE).map(
    "".join
)
PATH = TEXT.map(lambda text: f"/{text}".replace("\0", "/"))
PRINTABLE = st.text(EDGE, min_size=1, max_size=12)
NAME = st.from_regex(r"[A-Za-z0-9._-]{1,12}", fullmatch=True)
FLOW = st.from_regex(r"[a-z0-9]([a-z0-9_-]{0,6}[a-z0-9])?", fullmatch=True)
NUMBER = st.integers(1, 2**53 - 1)
NAMES = st.lists(TEXT, max_size=3).map(tuple)
FORGE = st.sampled_from(["github", "gitlab", "forgejo"])
BOOL = st.none() | st.booleans()
REPOS = st.lists(st.sampled_from(["acme/web", "acme/api", "g/s/p"]), unique=True, max_size=2).map(tuple)
MARK = st.none() | st.builds(Disarmed, TEXT, st.none() | TEXT)
VARIABLE = st.from_regex(r"X_[A-Z0-9_]{0,6}", fullmatch=True)
INSTANT = st.datetimes(datetime(1970, 1, 1), datetime(9000, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@st.composite
def works(draw, kind, *, once=False):
    """A `run` of this kind; which keys go together is the grammar's matter, so it is drawn in its terms."""
    local = kind == "local"
    command = draw(st.none() | PRINTABLE.filter(lambda t: not t.startswith("/")))
    secrets = draw(st.dictionaries(VARIABLE, PRINTABLE.filter(lambda t: not t.startswith("-")), max_size=2))
    resume = draw(st.sampled_from([None, False] if local or command or secrets else [None, False, True]))
    replicas = None if local or once or resume else draw(st.sampled_from([None, 2, 3]))
    waits = not (local or once or replicas) and draw(st.booleans())
    profiles = draw(st.lists(NAME, unique=True, max_size=3)) if waits else []
    after = draw(st.lists(INSTANT, max_size=1)) if waits else []
    free = command is None
    return work_of(
        kind,
        flow=draw(TEXT if local else FLOW) if free else None,
        command=command,
        folder=draw(PATH) if local else None,
        task=draw(TEXT) if local and free else None,
        instructions=draw(st.none() | TEXT) if free and not local else None,
        provider=draw(st.none() | NAME.filter(lambda t: t[0].isalnum())),
        model=None,
        allowed_models=tuple(draw(st.lists(st.sampled_from(["a/b", "c/@d/e"]), unique=True))) or None,
        max_turns=draw(st.none() | st.integers(1, 2**31 - 1)),
        cost_cap_micros=draw(st.none() | st.integers(1, 10**12)),
        image=draw(st.none() | PRINTABLE.filter(lambda t: not t.startswith("-"))),
        packages=draw(BOOL),
        skills_dir=draw(st.none() | TEXT.map(lambda text: f"/{text}".encode())),
        resume=resume,
        secrets=tuple(secrets.items()),
        secrets_profile=draw(st.none() | NAME) if secrets else None,
        replicas=replicas,
        backend=draw(st.none() | st.sampled_from(BACKENDS)),
        excluded_tools=tuple(draw(st.lists(st.sampled_from(TOOL_NAMES), unique=True, max_size=3))) or None,
        wait_for=(*map(WaitAfter, after), *map(WaitProfile, profiles)),
        github=draw(BOOL) if local else None,
        portfolio=draw(BOOL if free else st.sampled_from([None, False])) if local else None,
        priority=draw(st.integers(-100, 100)),
        egress_hosts=tuple(
            draw(st.lists(st.sampled_from(["example.com", ".a.example:22", "@npm"]), max_size=3))
        )
        or None,
    )


@st.composite
def events(draw, kind):
    words = FORGES[kind]
    once = draw(st.booleans())
    number = draw(NUMBER) if once else draw(st.none() | NUMBER)
    narrowed = {"number": number, "once": once}
    labels = Labels(draw(NAMES), draw(NAMES), draw(NAMES))
    approving = Labels((*labels.any_of, "pi"), labels.all_of, labels.none_of)
    actions = tuple(
        draw(
            st.lists(
                st.sampled_from([w for w in words.pull_request_actions if w != words.closed]), min_size=1
            )
        )
    )
    states = (
        draw(st.lists(st.sampled_from(REVIEW_STATES), max_size=2)) if "review_submitted" in actions else []
    )
    open_labels = approving if words.labelled in actions else labels
    return draw(
        st.sampled_from(
            [
                LabelEvent(approving),
                CommentEvent(draw(TEXT)),
                PullRequestEvent(actions, open_labels, tuple(states)),
                PullRequestEvent((words.closed,), **narrowed),
                IssueEvent(words.issue_actions, **narrowed),
            ]
        )
    )


@st.composite
def triggers(draw):
    entries = []
    for index in range(draw(st.integers(0, 4))):
        kind = draw(st.just("local") | FORGE)
        local = kind == "local"
        zone = st.sampled_from([None, "UTC", "Europe/Berlin"])
        on = Cron("0 3 * * *", draw(zone), draw(st.sampled_from(Missed))) if local else draw(events(kind))
        if isinstance(on, CommentEvent) and any(
            e.work.kind == kind and isinstance(e.on, CommentEvent) for e in entries
        ):
            continue
        once = getattr(on, "once", False)
        identity = f"{draw(NAME)}-{index}"
        entries.append(
            Trigger(
                index=len(entries),
                line=0,
                on=on,
                work=draw(works(kind, once=once)),
                id=identity if local or draw(st.booleans()) else None,
                repos=() if local else draw(REPOS),
                while_running=draw(st.sampled_from(WhileRunning)),
                disarmed=draw(MARK) if once else None,
            )
        )
    return Triggers(tuple(entries))


@given(triggers())
def test_triggers_that_are_printed_read_back_the_same(written):
    printed = write_triggers(written)

    assert parse_triggers(printed, "t") == written
    assert write_triggers(parse_triggers(printed, "t")) == printed


def test_a_file_of_every_type_reads_back_the_same():
    comment = changed(BY_NAME["comment"], run={"kind": "azure", "repository": "web"})
    found = parse(*(each for name, each in BY_NAME.items() if name != "comment"), AZURE, comment)

    assert parse_triggers(write_triggers(found), "t") == found
