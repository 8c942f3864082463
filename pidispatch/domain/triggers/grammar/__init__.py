"""`triggers.json`: its grammar, its printing, and the one mark that we write into it."""

from pidispatch.domain.triggers.grammar.file import parse_triggers
from pidispatch.domain.triggers.grammar.marking import with_disarmed, without_disarmed
from pidispatch.domain.triggers.grammar.printing import entry_document, write_triggers

__all__ = ["entry_document", "parse_triggers", "with_disarmed", "without_disarmed", "write_triggers"]
