"""The error tree: what can go wrong, with fields for people and an exit code for supervisors."""

from collections.abc import Sequence


class PidispatchError(Exception):
    """Something failed that an operator can act on. Ends a command with exit code 1."""

    exit_code = 1


class ConfigurationRefused(PidispatchError):
    """The configuration (or a file it names) was refused. `problems` holds one sentence for each fault."""

    exit_code = 2

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class SchemaDiffers(PidispatchError):
    """The database's revision is not the one this version was built for; both are named.

    `missing` are tables that a database of the right revision lacks.
    """

    exit_code = 2

    def __init__(self, *, found: str | None, wanted: str, ahead: bool, missing: Sequence[str] = ()) -> None:
        self.found, self.wanted, self.ahead, self.missing = found, wanted, ahead, tuple(missing)
        if missing:
            super().__init__(
                f"the database is damaged: it is at {found} and lacks {', '.join(missing)}; restore it from a backup,"
                " or name an empty database in DATABASE_URL and run `pidispatch db upgrade`"
            )
            return
        way_out = (
            "the database was upgraded by a newer pidispatch: install that version"
            if ahead
            else "run `pidispatch db upgrade`"
        )
        super().__init__(
            f"the database schema is {'ahead' if ahead else 'behind'}: it is at "
            f"{found or 'no revision'}, this version needs {wanted}; {way_out}"
        )


class Unavailable(PidispatchError):
    """A part that pidispatch needs does not answer now; trying again later may help."""

    part = "a service"

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"{self.part} does not answer: {problem}")


class DatabaseUnavailable(Unavailable):
    part = "Postgres"


class DatabaseUnfit(DatabaseUnavailable):
    """Postgres answers, and pidispatch cannot work with this database as it is. `lasting`: not by waiting either."""

    def __init__(self, problem: str, *, lasting: bool = False) -> None:
        super().__init__(problem)
        self.args = (f"Postgres cannot be used: {problem}",)
        self.exit_code = 2 if lasting else 1


class DatabaseRefused(PidispatchError):
    """Postgres answers, and does not allow this role to do what was asked."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(
            f"Postgres refuses: {problem}; give this role the rights, or use the owner of the tables"
        )


class QueueUnavailable(Unavailable):
    part = "Redis"


class GatewayUnavailable(Unavailable):
    part = "the gateway"


class EngineUnavailable(Unavailable):
    part = "the Docker engine"


class BindsUnseen(EngineUnavailable):
    """The engine sees other mounts than this process makes; the next try does without them."""


class BoxFault(PidispatchError):
    """The engine refused to make or start a box. `why` is the fixed word the record carries."""

    why = "engine-refused"


class ImageMissing(BoxFault):
    why = "job-image-missing"


class WrongArchitecture(BoxFault):
    why = "job-image-wrong-arch"


class EntrypointMissing(BoxFault):
    why = "entrypoint-missing"


class DiskFull(BoxFault):
    why = "disk-full"


class NameTaken(BoxFault):
    """A container of this name exists: another process made this attempt's box."""

    why = "name-taken"


class MountDiffers(BoxFault):
    """A box has something else mounted than what was laid out for it."""

    why = "mount-differs"


class MountUnseen(BoxFault):
    """Nobody can tell what a box has mounted, so it may not go."""

    why = "mount-unseen"


class StaleEpoch(PidispatchError):
    """The run was changed by somebody else since it was read; this process must stop touching it."""

    def __init__(self, run_id: int, epoch: int) -> None:
        self.run_id, self.epoch = run_id, epoch
        super().__init__(f"run {run_id} is no longer at epoch {epoch}")


class FolderRefused(PidispatchError):
    """A folder cannot be used for a run. `reason` is the word a record would carry."""

    def __init__(self, reason: str, problem: str) -> None:
        self.reason = reason
        super().__init__(problem)


class SkillsRefused(FolderRefused):
    """A directory of skills cannot be given to a run. `why` is a second word; the problem names the file."""

    def __init__(self, why: str, problem: str) -> None:
        self.why = why
        super().__init__("skills-dir-unusable", problem)


class FileInUse(PidispatchError):
    """Another command, or another program, holds the file's lock. `path` is the file."""

    def __init__(self, path: object) -> None:
        self.path = path
        super().__init__(f"another command is changing {path}; try again when it is done")


class CannotRearm(PidispatchError):
    """The one-shot is not spent, or the run that spends it has not ended. `live` names that run."""

    def __init__(self, key: str, live: str | None = None) -> None:
        self.key, self.live = key, live
        why = "is not spent" if live is None else f"is being spent by {live}, which has not ended"
        super().__init__(f"the one-shot {key} {why}")
