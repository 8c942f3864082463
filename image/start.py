"""Start the runner, isolated (-I -S) from whatever the environment and the workspace hold."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from runner.main import main

main()
