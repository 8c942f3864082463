"""The operator's files on disk: read again when they change, and replaced whole.

`LiveFile` and `LiveFiles` keep the last good value over a bad edit, `StrictFile` does not; `replace` writes.
"""

from pidispatch.files.live import LiveFile, LiveFiles
from pidispatch.files.replacing import FileChanged, FileInUse, replace
from pidispatch.files.strict import StrictFile, Unusable

__all__ = ["FileChanged", "FileInUse", "LiveFile", "LiveFiles", "StrictFile", "Unusable", "replace"]
