"""Mounts of boxes that have none."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from pidispatch.domain.box.sandbox import Mount


@dataclass
class FakeMounts:
    """`ports.Mounts`: every box has what it was made with, unless a test says otherwise. What has no identity gets one."""

    unheld: Exception | None = None
    different: Exception | None = None
    checked: list[tuple[str, Sequence[Mount]]] = field(default_factory=list)

    @contextmanager
    def hold(self, box: str, mounts: Sequence[Mount]) -> Iterator[Sequence[Mount]]:
        if self.unheld is not None:
            raise self.unheld
        yield tuple(each if each.identity else replace(each, identity=(1, 1)) for each in mounts)

    def check(self, container_id: str, mounts: Sequence[Mount]) -> None:
        self.checked.append((container_id, mounts))
        if self.different is not None:
            raise self.different

    def sweep(self) -> int:
        return 0
