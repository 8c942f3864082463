"""Read a directory of skills that a run is given: a bounded number of small files, and nothing that a link leads to."""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from pidispatch.domain import words
from pidispatch.errors import FolderRefused, SkillsRefused
from pidispatch.files.untrusted import NotRegular, TooLarge, directory, read_regular

MOST_FILES = 256
MOST_IN_A_SKILL = 64
MOST_BYTES_OF_A_FILE = 1024 * 1024
MOST_BYTES = 8 * 1024 * 1024
MOST_LEVELS = 5  # directories below the one that is given
LONGEST_PATH = 200
MOST_ENTRIES = 1000  # in one directory, those that are left out too
MANIFEST = "SKILL.md"
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.+-]{0,62}[A-Za-z0-9_])?")


def check_skills(path: bytes) -> None:
    """Raises FolderRefused (`skills-dir-missing`) unless there is a directory, itself and not by a link."""
    try:
        if path.startswith(b"/") and stat.S_ISDIR(os.lstat(path).st_mode):
            return
    except (OSError, ValueError):
        pass
    raise FolderRefused(
        words.SKILLS_DIR_MISSING, f"run.skillsDir {os.fsdecode(path)!r} is no directory with an absolute path"
    )


def read_skills(path: bytes) -> Mapping[str, bytes]:
    """Every file by its relative path. Names that begin with a dot are left out, as pi leaves them out.

    Raises FolderRefused, and SkillsRefused that names the file it is about.
    """
    check_skills(path)
    reader = _Reader(os.fsdecode(path))
    try:
        with directory(path) as top:
            reader.read(top, ())
    except OSError as error:
        raise reader.refusal("", words.UNREADABLE, f"cannot be read: {error.strerror}") from error
    if not any(name.rpartition("/")[2] == MANIFEST for name in reader.found):
        raise reader.refusal("", words.NO_SKILL, f"holds no {MANIFEST}")
    return reader.found


class _Reader:
    """What was found so far; `place` is the directory's name, for people."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._bytes = 0
        self.found: dict[str, bytes] = {}

    def read(self, below: int, parents: tuple[str, ...]) -> None:
        for name in sorted(self._names(below, parents)):
            path = "/".join((*parents, name))
            facts = os.stat(name, dir_fd=below, follow_symlinks=False)
            if stat.S_ISDIR(facts.st_mode):
                if len(parents) >= MOST_LEVELS:
                    raise self.refusal(path, words.TOO_DEEP, f"is more than {MOST_LEVELS} directories deep")
                with directory(name, below=below) as inner:
                    self.read(inner, (*parents, name))
            else:
                self._take(path, name, below)

    def refusal(self, path: str, why: str, problem: str) -> SkillsRefused:
        where = str(Path(self._place, path)) if path else self._place
        return SkillsRefused(why, f"run.skillsDir: {where!r} {problem}")

    def _names(self, below: int, parents: tuple[str, ...]) -> Iterator[str]:
        with os.scandir(below) as entries:
            for seen, entry in enumerate(entries):
                if seen >= MOST_ENTRIES:
                    raise self.refusal(
                        "/".join(parents), words.TOO_MANY, f"has more than {MOST_ENTRIES} entries"
                    )
                if entry.name.startswith("."):
                    continue
                path = "/".join((*parents, entry.name))
                if not _NAME.fullmatch(entry.name) or len(path) > LONGEST_PATH:
                    raise self.refusal(
                        path,
                        words.BAD_NAME,
                        "needs a name of letters, digits and . _ + -, at most 64, 200 with its path",
                    )
                yield entry.name

    def _take(self, path: str, name: str, below: int) -> None:
        left = MOST_BYTES - self._bytes
        try:
            content = read_regular(name, below=below, most=min(MOST_BYTES_OF_A_FILE, left))
        except NotRegular as error:
            raise self.refusal(path, words.NOT_REGULAR, "is no regular file that can be read") from error
        except TooLarge as error:
            problem = f"is larger than {MOST_BYTES_OF_A_FILE:,} bytes, or all together than {MOST_BYTES:,}"
            raise self.refusal(path, words.TOO_LARGE, problem) from error
        self.found[path] = content
        self._bytes += len(content)
        skill = path.partition("/")[0]
        if len(self.found) > MOST_FILES or self._in(skill) > MOST_IN_A_SKILL:
            problem = f"is one file too many: {MOST_FILES} in all, {MOST_IN_A_SKILL} in a skill"
            raise self.refusal(path, words.TOO_MANY, problem)

    def _in(self, skill: str) -> int:
        return sum(name.startswith(f"{skill}/") for name in self.found)
