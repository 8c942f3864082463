"""The manual: what `pidispatch COMMAND --help` says of each command; docs/cli.md is made of it.

The first paragraph of a text is the command's line in the list of commands. Each command names its exit codes in a
paragraph that begins with `Exit code`. Square brackets are markup to the terminal, so there are none.
"""

from collections.abc import Mapping, Sequence

import typer

TEXTS: Mapping[str, str] = {
    "": """
Run the pi coding agent on repositories while nobody watches.

Services are found by DATABASE_URL and REDIS_URL, else by a `pidispatch up` that runs in the same home (docs/configuration.md).
Commands that only read need the database alone.

RUN is a run's id, the beginning of one (`local-` may be left out), or its number.

`--install-completion` adds the completion of commands and options to your shell's start-up file (bash, zsh, fish, PowerShell);
`--show-completion` prints it instead.

With --json a command prints one document on standard output. Its keys stay the same from version to version, new ones may come; times
are ISO 8601 in UTC, counts are integers, money is micro-dollars. Control characters in names that came from outside are shown as `\\x1b`.

What is stored is reported: once `run`, `requeue`, `grant`, `pause` or `resume` has committed, it names what is stored and ends with 0, even when
Postgres goes away before the rest of the answer can be read. Then a note says so (`unread` in --json, and `run` is null).

Exit code: 0 done; 1 failed, one line on standard error says why and what to do; 2 the configuration, the schema or the command line was
refused, each problem on a line of its own; 141 the reader of the output left, as `head` does. Output that cannot be written ends with 1.
""",
    "up": """
Start services, migrations, image, gateway and worker in the foreground; Ctrl-C stops them.

Ctrl-C also stops the runs that are at work here, unless --detach-runs is given: then they go on, and the next `up` or worker finishes them.

Exit code: 0 stopped; 1 something could not start or ended by itself; 2 configuration refused.
""",
    "worker": """
Start a worker alone, beside services of your own.

At SIGTERM it starts nothing more and exits within 2 seconds; its runs go on, and the next worker finishes them (`leave-runs`). With --drain it
exits when the runs of its host have ended. With --stop-runs it stops the runs of its host (reason `worker-abort`), waits up to 45 seconds and
exits. PIDISPATCH_AT_SIGTERM sets the same for every worker. A second SIGTERM ends a worker that waits at once.

To deploy a new version: `db upgrade`, stop the old worker, start the new one; no second of a run is lost. Send SIGTERM to the main process
alone (systemd: KillMode=mixed): sent to the whole process group, each worker would get it twice.

Exit code: 0 ended as asked; 1 failed; 2 configuration or schema refused.
""",
    "demo": """
Run pi once in a real box on a sample repository, with a scripted provider in place of a paid one.

It shows the commands that it runs, the changed files and the record. Nothing of your own configuration is used, and nothing is paid.

Exit code: 0 done; 1 failed.
""",
    "run": """
Queue one run of the agent in FOLDER, or the run of a schedule.

FOLDER must be the root of a git repository that has a commit, owned by the user that the agent shall run as, and not by root. A folder with
uncommitted changes is refused unless --force is given. What counts as a change is described in docs/operations.md#uncommitted-changes.

The task is exactly one of --task and --task-file. It arrives byte for byte. More than 1 MiB is cut, which the command reports and the task
itself shows; more than 64 MiB is refused. Options that are left out are taken from the configuration when the run starts.

The same request within one minute is one run: the second command names it and how it stands. The same task that a schedule started in this
folder less than a minute ago is one run too, unless it has ended; a request with a provider, model, image, number of turns, bound or instant
of its own always has its own run.

With --trigger ID a schedule of the triggers file is started now. The entry says what the run does, so only --wait and --json go with it. Its
id is `manual:ID:MINUTE`, so twice within a minute is one run. /job/event.json is that of a schedule, with null for `scheduledFor` and
`previousRunAt`; no instant of the schedule is used up; uncommitted changes are no obstacle, as at its instants. Refused are an id that the
file does not have, an entry that waits for a forge, a file that a worker would refuse, a folder without a commit, and a .env that names
another triggers file than the environment does.

With --wait the command shows the progress until the run has ended. Ctrl-C ends the watching, not the run. When Redis does not answer, the
run is queued all the same, and a worker finds it by itself.

$ pidispatch run ./web --task 'change the greeting' --wait

Exit code: 0 queued, or another run answers for it, with --wait completed; 1 refused, with --wait any other end, or Ctrl-C; 2 configuration
or command line refused.
""",
    "runs": """
List runs, the newest first.

Exit code: 0.
""",
    "show": """
Show everything that is known of one run.

The numbers of a run at work are what the gateway has measured so far. `at most`, `≥` and `~` say how sure a cost is (docs/operations.md#money).
What a box said of itself stands beside what was measured; nothing is decided or charged by it.

Exit code: 0; 1 there is no such run.
""",
    "logs": """
Print the output of a run's container, without control characters.

The output is kept as long as the container, which is removed once the run's record is written. Secrets are masked as in records
(docs/architecture.md#what-is-masked); without the gateway, which alone knows the providers' keys, nothing is shown. --follow waits for the
container, and goes on until it ends or Ctrl-C.

Exit code: 0; 1 there is nothing to show.
""",
    "explain": """
Explain why a run started, waits or was refused: every gate in order, its verdict, and the numbers that it saw.

A gate is `passed`, `stopped here` or `not reached`. The numbers are those of the last time a worker decided about the run, also for a run that
was admitted; windows show what was used with this run counted in. Of a run that waits it says what it waits for at this moment, and its place in line.
Of a run that a schedule started it says which instant it is of, how late it was, and why.

Exit code: 0; 1 there is no such run.
""",
    "status": """
Show the queue: runs by state, why they wait, workers, hosts, pauses, what today may still start, and what is red.

docs/operations.md#what-is-red lists each fault with its way out. `why waiting` counts causes; the whole line of waiting runs, in the order in which
they will be tried, is a view:

$ pidispatch db psql -c 'SELECT * FROM why_waiting ORDER BY place'

Exit code: 0; with --check 1 when something is red.
""",
    "budget": """
Show each limit on spend: used, cap, what running runs hold of it, and when it resets (UTC).

`of it held` is reserved by runs that have not ended, of which at most 20 are named. `at most` marks a window with calls that ended without their usage. `state` is that of what is
used now: `over` and `soft-hold` refuse the next run.

Exit code: 0; 1 the limits cannot be read.
""",
    "prices": """
Show what a model costs, in dollars for a million tokens, and where the price comes from.

Without a name: the configured model, and all that the prices file names. Where nobody names a price, it says what to write (docs/prices.md).

Exit code: 0; 1 one of them has no price; 2 the file is refused.
""",
    "pause": """
Start nothing more, everywhere or in one scope. Runs that have started go on.

When the command has returned, no run is admitted any more, on no host, also across restarts, until `resume`. The database alone decides: neither Redis, an
engine nor a file of limits is needed. Doing it twice is no fault; the first pause's time and author stay. Each command is recorded in the
audit log with user and host.

With --now no run calls a model any more: new calls are refused, those under way are cut within a second. The runs keep their slots; one
that ends for it is `policy: operator-stop`. On what is paused already it adds just that.

A folder is its path as it was given to `run`, links not followed: pausing one path leaves runs alone that were asked for by another path to
the same folder.

Exit code: 0; 1 there is no such scope.
""",
    "resume": """
Let runs start again, and call models again.

`resume` of everything does not end the pause of a single scope, nor the reverse.

Exit code: 0; 1 there is no such scope.
""",
    "cancel": """
End a run, in whatever state it is, and wait until it is gone.

A run that waits ends at once and gives back what it holds; what an earlier attempt may have spent stays spent. A run at work is asked to stop:
its gateway refuses every further model call from that moment, its container gets SIGTERM, and SIGKILL ten seconds later. The command waits up to
30 seconds. Gone means: no container, every model call settled, the slot free. What is not gone by then is named, and goes on being stopped by
the workers. Once the command has asked, the run is recorded as `operator-cancel` even if its agent finishes by itself meanwhile.
When Postgres goes away before that is known, the run is named, and the exit code is 1.

--all takes every run that has not ended when the command begins. Runs at work are stopped at the same time, and of those that wait none
starts meanwhile. `pause` before it keeps new ones from starting. Each run leaves a row in the audit log.

Exit code: 0 gone, with --all all of them; 1 it had ended, or is still stopping.
""",
    "requeue": """
Repeat a run that has ended, as a new run: every gate and every limit applies again.

The new run has the folder, task and all that was asked of the old one. Changes that the old run left in the folder do not hold it up. --task-file gives it
another task. Refused are a run that has not ended, and one whose task was deleted, seven days after its end. Asking twice within one minute is one run.

Exit code: 0 queued, or the same request stands; 1 refused.
""",
    "grant": """
Let a run that stopped at its own cap of dollars, tokens or turns go on, as a new run with its folder, session and task.

`+2`, `+2.00` and `2.00` are the same amount: what the new run may spend. docs/operations.md#going-on-after-a-cap describes what is kept, and for how long.
Refused, with the way out, is a run that has not ended, that ended otherwise, of which nothing is kept, or that goes on already.

$ pidispatch grant e642 +2.00

Exit code: 0 queued; 1 refused.
""",
    "forget-host": """
End the runs of a host that is gone for good as lost: their slots are free, what may have been spent stays spent.

A run whose host has given no sign of life for 30 seconds is shown as `unreachable`, and keeps its slot and its money: its agent may be at work. This command
ends it as `failed: lost (host-forgotten)`. It asks first, unless --yes is given, and is refused for a host that was heard from in the last 60 seconds.
Should the host come back, it finds that its runs are no longer its own, and removes their containers. Runs that wait for that host alone stay in line until
they are cancelled.

Of a host that lives it gives up only runs in boxes of a Docker engine that none of its workers has, such as one that was installed anew
(docs/operations.md#host-names).

Exit code: 0; 1 the host lives, there is no such host, or it was not confirmed.
""",
    "doctor": """
Check the installation, the rows against each other, and the rows against containers.

Nothing is changed. Each line that is not ok has the way out below it, and no fault hides another. Containers are compared twice, five seconds apart: only a difference that
lasts is one. Without a database at this version's schema the rows are left out.

Exit code: 0; 1 something FAILED.
""",
    "config": """
Show each setting and where it came from. Secrets are not shown.

Exit code: 0; 2 configuration refused.
""",
    "check": """
Say whether the operator's files (limits, projects, pauses, settings, triggers, prices, providers, egress) would be accepted, before they are put in place.

Files that are given together are judged together. The formats: docs/operator-files.md.

Exit code: 0 accepted; 2 refused, with every problem.
""",
    "set": """
Set a key of settings.json; the next run that starts obeys it.

Exit code: 0 set; 1 the file is in use or cannot be written; 2 the key or the value is refused.
""",
    "unset": """
Take a key out of settings.json; the environment and the defaults apply again.

Exit code: 0 taken out; 1 the file is in use or cannot be written; 2 the key is refused.
""",
    "db": "Upgrade, check and read the database.",
    "db upgrade": """
Bring the schema to this version, and print each revision.

Exit code: 0; 1 failed; 2 the database is ahead of this version, or damaged.
""",
    "db check": """
Say whether the schema is this version's: `ok`, `behind`, `ahead`, or `damaged` (tables are missing).

Exit code: 0 ok; 1 anything else.
""",
    "db url": """
Print the database's address for other programs, without its password.

Put the password into a file of your own that PGPASSFILE names.

Exit code: 0.
""",
    "db psql": """
Open psql on the database. The arguments are psql's.

A password in DATABASE_URL is never printed, and never in an argument or the environment of psql: it passes in a file of mode 0600 that is
removed when psql ends.

$ pidispatch db psql -c 'TABLE run_history'

Exit code: psql's own.
""",
    "image": "Build and check the job image.",
    "image build": """
Build the job image, unless it is up to date.

Exit code: 0 built or up to date; 1 failed.
""",
    "image check": """
Say whether the job image is the one that this version uses, and what is wrong with it.

Exit code: 0 ok; 1 not.
""",
    "egress": """
List which hosts runs may reach, from which line of the file, and the presets that a file may name.

Exit code: 0; 2 the file is refused.
""",
    "egress check": """
Say whether every run may reach a host, by its name.

Exit code: 0 yes; 1 no; 2 it is no host.
""",
    "triggers": """
List what starts runs by itself: what each entry does and waits for, and what it last did.

A file that is refused is reported on standard error. Workers that run keep the last good edit, so what they plan is listed all the same, from
the rows; entries for events of a forge are in no row and cannot be listed then. When the rows cannot be read, the file is listed without
them.

Exit code: 0; 1 the rows cannot be read; 2 the file is refused.
""",
    "triggers show": """
Show one entry in full, and what became of its last ten instants.

Exit code: 0; 1 there is no such entry, or the rows cannot be read; 2 the file is refused.
""",
    "triggers next": """
Show when a schedule is due next, in its zone and in UTC, also over a change of clocks.

Exit code: 0; 1 there is no such schedule; 2 the file is refused.
""",
    "triggers test": """
Show what an event would start, and at which gate each entry stops it. Nothing is started or written.

Entries are asked in the order shown. The gates are `forge`, `armed` (is the entry used up), `event` (its kind), `repository`, `action`, `number`, `content` (labels, phrase,
review) and `authority`. The first entry that passes all of them is the one that would start. Caps and pauses are not asked. Without a database the file alone is judged, and
what only rows know is said to be missing. The keys of an event: docs/operator-files.md#an-event-for-triggers-test.

Exit code: 0; 1 the rows cannot be read; 2 the event or the file is refused.
""",
    "triggers rearm": """
Let a one-shot fire again that was used up.

What says that it is used up, the row and the mark `on.disarmed` in this host's file, is taken away; the audit log records who did it. Refused while the run that
uses it up goes on, and when it is not used up. When a mark stays that holds it back (the file cannot be changed now, or it is another host's), the place is named.

Exit code: 0; 1 it is armed, its run goes on, there is no such entry, or a mark still holds it back; 2 the file is refused.
""",
    "triggers close": """
Let a trigger start again that was held back after failures in a row; its failures are forgotten.

How it came to that: docs/operations.md#a-trigger-that-fails-again-and-again.

Exit code: 0; 1 there is no run of such a trigger.
""",
    "triggers zone": """
Show in which zone this host's schedules without `tz` are planned; with ZONE, choose another.

It holds for all workers of this host within half a minute, and is recorded in the audit log.

Exit code: 0; 2 it is no zone.
""",
}


def text(name: str) -> str:
    """Paragraphs between empty lines; a terminal breaks their lines."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in TEXTS[name].split("\n\n"))


def line(name: str) -> str:
    """The command's line in the list of commands."""
    return text(name).partition("\n\n")[0]


def tell(app: typer.Typer, path: Sequence[str] = ()) -> None:
    """Give each command of an app its text, those of its groups too."""
    for command in app.registered_commands:
        name = str(command.name or getattr(command.callback, "__name__", ""))
        command.help = text(" ".join((*path, name)))
    for group in app.registered_groups:
        if group.typer_instance is not None:
            named = group.name if isinstance(group.name, str) else group.typer_instance.info.name
            below = (*path, str(named))
            group.help = text(" ".join(below))
            tell(group.typer_instance, below)
