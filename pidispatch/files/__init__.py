"""The operator's files on disk: read again when they change, and replaced whole.

`LiveFile` and `LiveFiles` keep the last good value over a bad edit, `StrictFile` does not; `replace` writes, `edit`
changes a few bytes among others who do, `MarkedFile` holds the marks of used-up one-shots.
"""

from pidispatch.errors import FileInUse
from pidispatch.files.live import LiveFile, LiveFiles
from pidispatch.files.marks import MarkedFile, edit
from pidispatch.files.replacing import FileChanged, replace
from pidispatch.files.strict import StrictFile, Unusable

__all__ = [
    "FileChanged",
    "FileInUse",
    "LiveFile",
    "LiveFiles",
    "MarkedFile",
    "StrictFile",
    "Unusable",
    "edit",
    "replace",
]
