"""Hold the fixed scripts that run in a git box, beside the reader of what they print."""

import re

from pidispatch.domain.box.facts import FolderState
from pidispatch.domain.box.sandbox import WORKSPACE_DIR

# Whoever started the box has looked into it before it says `go`; the lengths are of what follows: git's global
# configuration, the global ignore file, the global attributes. No program that the folder names is run, neither for
# its files (a filter is overridden by one that does nothing) nor for its submodules (git would ask theirs).
_GIT = r"""
IFS=' ' read -r go c i a || exit 98
[ "$go" = go ] || exit 98
command -v git >/dev/null || exit 127
head -c $((c + i + a)) >/tmp/owner
head -c "$c" /tmp/owner >/tmp/global
tail -c +$((c + 1)) /tmp/owner | head -c "$i" >/tmp/ignore
tail -c "$a" /tmp/owner >/tmp/attributes
export GIT_CONFIG_GLOBAL=/tmp/global
g() {
  git --no-pager -c core.fsmonitor=false -c core.hooksPath=/dev/null -c core.pager=cat \
    -c protocol.allow=never -c 'safe.directory=*' "$@"
}
tame() {
  unset GIT_CONFIG_COUNT
  g config --name-only --get-regexp '^filter\..*\.(clean|smudge|process|required)$' >/tmp/filters 2>/dev/null
  n=0
  while IFS= read -r key; do
    case $key in *.required) value=false ;; *) value= ;; esac
    eval "GIT_CONFIG_KEY_$n=\$key; GIT_CONFIG_VALUE_$n=\$value; export GIT_CONFIG_KEY_$n GIT_CONFIG_VALUE_$n"
    n=$((n + 1))
  done </tmp/filters
  export GIT_CONFIG_COUNT=$n
}
cd /workspace || exit 3
tame
"""

# $1 is a random mark that begins each section, so that no file's name can pass for one.
GIT_STATE = (
    _GIT
    + r"""
say() { printf '\n%s %s\n' "$1" "$2"; }
status() { g status --porcelain=v2 -z --untracked-files=normal --ignore-submodules=dirty; }
# Whether a changed entry is a file of Git LFS whose content is what its pointer says.
same() {
  printf '%s\n' "$1" | {
    IFS=' ' read -r kind xy sub mh mi mw hh hi path
    [ "$kind $xy $sub $mi" = "1 .M N... $mw" ] && [ -f "$path" ] && [ ! -L "$path" ] || exit 1
    [ "$(g check-attr filter -- "$path")" = "$path: filter: lfs" ] || exit 1
    g cat-file blob "$hi" | head -c 1024 >/tmp/pointer
    [ "$(head -n 1 /tmp/pointer)" = 'version https://git-lfs.github.com/spec/v1' ] || exit 1
    oid=$(sed -n 's/^oid sha256:\([0-9a-f]\{64\}\)$/\1/p' /tmp/pointer)
    size=$(sed -n 's/^size \([0-9]\{1,18\}\)$/\1/p' /tmp/pointer)
    [ "$(wc -c <"$path" | tr -d ' ')" = "$size" ] && [ "$(sha256sum <"$path" | cut -c 1-64)" = "$oid" ]
  }
}
different() {
  if [ "$(tr -cd '\n' <"$1" | head -c 1 | wc -c)" -gt 0 ]; then cat "$1"; return; fi
  tr '\0' '\n' <"$1" | while IFS= read -r entry; do
    case $entry in '1 .M '*) same "$entry" && continue ;; esac
    printf '%s\0' "$entry"
  done
}
# Those below, each in a shell of its own; what is said of one is its path.
submodules() {
  g ls-files -s | sed -n 's/^160000 [0-9a-f]* 0	//p' >"/tmp/submodules$1"
  while IFS= read -r path; do
    [ -e "$path/.git" ] || { case $path in '"'*) say "$m" changes; printf '? %s\0' "$path" ;; esac; continue; }
    (
      cd "$path" && tame && status >"/tmp/status$1" 2>/dev/null || : >"/tmp/failed$1"
      different "/tmp/status$1" >"/tmp/changes$1"
      if [ -s "/tmp/changes$1" ] || [ -e "/tmp/failed$1" ]; then say "$m" changes; printf '? %s\0' "$2$path"; fi
      [ "${#1}" -lt 8 ] && submodules "$1x" "$2$path/"
    )
  done <"/tmp/submodules$1"
}
m=$1
say "$m" kind
if [ -L .git ]; then printf link; elif [ -f .git ]; then printf file
elif [ -d .git ]; then printf directory; else printf none; fi
say "$m" top;     g rev-parse --show-toplevel 2>/tmp/error
say "$m" refusal; head -c 2000 /tmp/error
say "$m" name;    g rev-parse --verify --quiet HEAD 2>/dev/null
say "$m" head;    g rev-parse --verify --quiet 'HEAD^{commit}' 2>/dev/null
say "$m" borrows; if [ -s .git/objects/info/alternates ]; then printf yes; fi
status >/tmp/status 2>/tmp/error; code=$?
say "$m" code;    printf %s "$code"
say "$m" changes; different /tmp/status | head -c 4096
say "$m" trouble; head -c 2000 /tmp/error
submodules x '' 2>/dev/null
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
_FIELDS_BEFORE = {b"1 ": 8, b"2 ": 9, b"u ": 10, b"? ": 1}


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
    changed = changed_paths(sections.get(b"changes", b""))
    if not changed and sections.get(b"code", b"").strip() != b"0":
        problem = f"git status failed: {plain_words(sections.get(b'trouble', b''))}"
        return FolderState(is_root=True, head=head.decode(), dirty=True, problem=problem)
    return FolderState(
        is_root=True, head=head.decode(), dirty=bool(changed), problem=None, changed=changed[:3]
    )


def changed_paths(entries: bytes) -> tuple[str, ...]:
    """The paths in what `git status --porcelain=v2 -z` said, as far as it was heard; what is no entry names itself."""
    parts = iter(entries.strip(b"\n").split(b"\0"))
    paths = []
    for part in parts:
        fields = _FIELDS_BEFORE.get(part[:2])
        if part[:2] == b"2 ":
            next(parts, None)  # what it was called before
        if part:
            paths.append(part if fields is None else part.split(b" ", fields)[-1])
    return tuple(plain_words(path) or "?" for path in paths)


def _sections(out: bytes, mark: bytes) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for part in out.split(b"\n" + mark + b" ")[1:]:
        name, _, body = part.partition(b"\n")
        if name == b"changes":  # of the folder, then of each submodule
            found[name] = found.get(name, b"") + body
        else:
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
