"""Hold the fixed scripts that run in a git box, beside the reader of what they print."""

import re

from pidispatch.domain.sandbox import WORKSPACE_DIR
from pidispatch.ports import FolderState

# Belt and braces: whatever still runs from the folder's configuration, runs in the box.
_GIT = """
cd /workspace || exit 3
command -v git >/dev/null || exit 127
g() {
  git --no-pager -c core.fsmonitor=false -c core.hooksPath=/dev/null -c core.pager=cat \\
    -c core.attributesFile=/dev/null -c protocol.allow=never -c 'safe.directory=*' "$@"
}
"""

# $1 is a random mark that begins each section, so that no file's name can pass for one.
GIT_STATE = (
    _GIT
    + r"""
say() { printf '\n%s %s\n' "$1" "$2"; }
m=$1
say "$m" kind
if [ -L .git ]; then printf link; elif [ -f .git ]; then printf file
elif [ -d .git ]; then printf directory; else printf none; fi
say "$m" top;     g rev-parse --show-toplevel 2>/tmp/error
say "$m" refusal; head -c 2000 /tmp/error
say "$m" name;    g rev-parse --verify --quiet HEAD 2>/dev/null
say "$m" head;    g rev-parse --verify --quiet 'HEAD^{commit}' 2>/dev/null
say "$m" borrows; if [ -s .git/objects/info/alternates ]; then printf yes; fi
g status --porcelain -z --untracked-files=normal >/tmp/status 2>/tmp/error; code=$?
say "$m" code;    printf %s "$code"
say "$m" changes; head -c 4096 /tmp/status
say "$m" trouble; head -c 2000 /tmp/error
say "$m" end
"""
)

# $1 is a full commit name.
GIT_DIFF = (
    _GIT
    + r"""
g diff --no-color --no-ext-diff --no-textconv --stat=100 --patch "$1" -- || exit 4
g ls-files --others --exclude-standard >/tmp/new || exit 4
if [ -s /tmp/new ]; then printf '\nnot tracked by git:\n'; head -c 65536 /tmp/new | sed 's/^/  /'; fi
"""
)

# $1 is a full commit name, the others are names of skills. Whoever reads the answer computes the objects' names anew;
# a replacement (`git replace`) would only keep the real ones away.
GIT_SKILLS = (
    _GIT
    + r"""
export GIT_NO_REPLACE_OBJECTS=1
c=$1; shift
{
  printf '%s\n' "$c" "$c^{tree}" "$c:.pi" "$c:.pi/skills"
  for f in "$@"; do printf '%s\n' "$c:.pi/skills/$f" "$c:.pi/skills/$f/SKILL.md"; done
} | g cat-file --batch
"""
)

_COMMIT = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def parse_state(out: bytes, mark: bytes) -> FolderState:
    """Read what `GIT_STATE` printed. Any bytes will do; what is not understood is a problem, never clean."""
    sections = _sections(out, mark)
    kind = sections.get(b"kind", b"").strip()
    if b"end" not in sections:
        return _unusable("git's answer is incomplete")
    if kind == b"none":
        return _unusable("it is not the root of a git repository: it has no .git")
    if sections.get(b"top", b"").strip() != WORKSPACE_DIR.encode():
        return _unusable(_why_no_root(kind, sections))
    head = sections.get(b"head", b"").strip()
    if not _COMMIT.fullmatch(head):
        return FolderState(is_root=True, head=None, dirty=True, problem=_why_no_head(sections))
    changed = bool(sections.get(b"changes", b"").strip(b"\n"))
    if not changed and sections.get(b"code", b"").strip() != b"0":
        problem = f"git status failed: {plain_words(sections.get(b'trouble', b''))}"
        return FolderState(is_root=True, head=head.decode(), dirty=True, problem=problem)
    return FolderState(is_root=True, head=head.decode(), dirty=changed, problem=None)


def _sections(out: bytes, mark: bytes) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for part in out.split(b"\n" + mark + b" ")[1:]:
        name, _, body = part.partition(b"\n")
        found.setdefault(name, body)
    return found


def _unusable(problem: str) -> FolderState:
    return FolderState(is_root=False, head=None, dirty=False, problem=problem)


def _why_no_root(kind: bytes, sections: dict[bytes, bytes]) -> str:
    if kind == b"file":
        return (
            "its .git is a file that leads to a repository outside the folder (a worktree or a submodule), "
            "which is not in the box; use a clone"
        )
    if kind == b"link":
        return "its .git is a symbolic link that leads outside the folder; use a clone"
    said = plain_words(sections.get(b"refusal", b""))
    return f"git does not take it for the root of a work tree: {said or 'its work tree is elsewhere'}"


def _why_no_head(sections: dict[bytes, bytes]) -> str:
    if sections.get(b"borrows", b"").strip() == b"yes":
        return (
            "its objects are borrowed from another repository (.git/objects/info/alternates), "
            "which is not in the box; run `git repack -a -d` and remove that file"
        )
    if _COMMIT.fullmatch(sections.get(b"name", b"").strip()):
        return "its commit cannot be read: the repository is damaged or incomplete"
    return "it has no commit yet"


def plain_words(said: bytes) -> str:
    """At most 300 printable characters of what somebody untrusted wrote, on one line."""
    text = " ".join(said[:2000].decode(errors="replace").split())
    return "".join(letter for letter in text if letter.isprintable())[:300]
