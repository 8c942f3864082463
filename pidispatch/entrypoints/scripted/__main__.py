"""`python -m pidispatch.entrypoints.scripted`: run the scripted provider until a signal."""

import argparse
import signal
from pathlib import Path

from pidispatch.entrypoints.scripted.server import ScriptedProvider


def main() -> None:
    parser = argparse.ArgumentParser(prog="pidispatch.entrypoints.scripted")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one; the ready line names it")
    parser.add_argument("--log", type=Path, help="append each request as a JSON line")
    options = parser.parse_args()
    signals = (signal.SIGTERM, signal.SIGINT)
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    with ScriptedProvider(host=options.host, port=options.port, log=options.log) as provider:
        print(f"ready {provider.url} port {provider.port}", flush=True)
        signal.sigwait(signals)


if __name__ == "__main__":
    main()
