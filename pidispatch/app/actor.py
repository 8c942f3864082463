"""Say who acts, for the audit log."""

import os
import pwd

from pidispatch.config import Settings


def actor(settings: Settings) -> str:
    """Who this process runs as, and where; an environment could claim anything."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    return f"{user}@{settings.worker_name}"
