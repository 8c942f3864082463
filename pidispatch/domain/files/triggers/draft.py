"""Hold what is known of an entry while it is read."""

from dataclasses import dataclass, field
from typing import Any

from pidispatch.domain.files.triggers.part import Part
from pidispatch.domain.triggers import Kind, TriggerType


@dataclass(slots=True)
class Seen:
    """What the entries above this one have taken: an id, or their forge's one comment."""

    ids: dict[str, int] = field(default_factory=dict)
    comments: dict[Kind, int] = field(default_factory=dict)


@dataclass(slots=True)
class Draft:
    """One entry. `work` fills with the values of its `Work`, `ask` with those of its `Ask`."""

    index: int
    type: TriggerType
    kind: Kind
    entry: Part
    on: Part
    run: Part
    seen: Seen
    work: dict[str, Any] = field(default_factory=dict)
    ask: dict[str, Any] = field(default_factory=dict)

    @property
    def scheduled(self) -> bool:
        return self.type is TriggerType.CRON

    @property
    def once(self) -> bool:
        """Whether the entry is written as a one-shot."""
        return "once" in self.on.fields and self.on.fields["once"].value is True

    @property
    def resumes(self) -> bool:
        return "resume" in self.run.fields and self.run.fields["resume"].value is True
