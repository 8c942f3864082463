"""Hold what is known of an entry while it is read."""

from dataclasses import dataclass, field
from typing import Any

from pidispatch.domain.forges.forge import Forge
from pidispatch.domain.forges.table import FORGES
from pidispatch.domain.triggers.grammar.part import Part
from pidispatch.domain.triggers.trigger import TriggerType


@dataclass(slots=True)
class SeenEntries:
    """What the entries above this one have taken: an id, or their forge's one comment."""

    ids: dict[str, int] = field(default_factory=dict)
    comments: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Draft:
    """One entry. `work` fills with the values of its `Work`, `ask` with those of its `Ask`."""

    index: int
    type: TriggerType
    kind: str
    entry: Part
    on: Part
    run: Part
    seen: SeenEntries
    work: dict[str, Any] = field(default_factory=dict)
    ask: dict[str, Any] = field(default_factory=dict)

    @property
    def forge(self) -> Forge:
        """Of an entry that is no schedule."""
        return FORGES[self.kind]

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
