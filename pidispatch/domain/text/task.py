"""Bound the text of a task without breaking a character."""

TASK_LIMIT = 1024 * 1024  # bytes of a task that are kept and delivered


def cut_task(task: bytes) -> bytes:
    """The task up to the limit, cut before the character that would pass it."""
    if len(task) <= TASK_LIMIT:
        return task
    end = TASK_LIMIT
    while end > TASK_LIMIT - 4 and task[end] & 0xC0 == 0x80:
        end -= 1
    return task[:end]


def task_text(task: bytes, task_bytes: int) -> str:
    """The task as text. One that was cut says so, and bytes that are no text show as U+FFFD."""
    text = task.decode("utf-8", errors="replace")
    if task_bytes > len(task):
        text += f"\n\n[The task was cut here: {len(task)} of {task_bytes} bytes.]\n"
    return text
