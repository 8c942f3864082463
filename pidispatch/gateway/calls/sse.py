"""Split a server-sent event stream into the data of its events, however its bytes are cut."""

import re

# https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class EventData:
    """Feed bytes, get the `data` of each complete event. An event over `most` bytes is skipped, not kept."""

    def __init__(self, most: int = 1024 * 1024) -> None:
        self._most = most
        self._line: list[bytes] = []
        self._line_size = 0
        self._data: list[bytes] = []
        self._data_size = 0
        self._after_cr = False
        self._first = True

    def feed(self, chunk: bytes) -> list[bytes]:
        if not chunk:
            return []
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._after_cr = False
        if not chunk:
            return []
        self._after_cr = chunk.endswith(b"\r")
        *ended, rest = _LINE_END.split(chunk)
        found = []
        for piece in ended:
            self._extend(piece)
            data = self._end_line()
            if data is not None:
                found.append(data)
        self._extend(rest)
        return found

    def rest(self) -> list[bytes]:
        """The stream is over: an event that lacks only its empty line is one, as some servers end."""
        data = [self._end_line(), self._end_event()]
        return [each for each in data if each is not None]

    def _extend(self, piece: bytes) -> None:
        self._line_size += len(piece)
        if self._line_size <= self._most:
            self._line.append(piece)

    def _end_line(self) -> bytes | None:
        line, size = b"".join(self._line), self._line_size
        self._line, self._line_size = [], 0
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if size == 0:
            return self._end_event()
        if line.startswith(b"data:"):
            self._data_size += size
            if self._data_size <= self._most:
                self._data.append(line[5:].removeprefix(b" "))
        return None

    def _end_event(self) -> bytes | None:
        data, size = self._data, self._data_size
        self._data, self._data_size = [], 0
        return b"\n".join(data) if data and size <= self._most else None
