"""Start the runner, isolated (-I -S) from whatever the environment and the workspace hold."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

if os.getpid() == 1:
    from runner.init import stand_over

    stand_over(os.environ)  # returns in the runner's process alone

from runner.main import main

main()
