"""`python -m tests.fault.run [--quick] [--cells TEXT …]`: run the fault matrix, and say what it showed."""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fault.cells import LANES, Cell, Matrix, quick_cells, read_matrix
from tests.fault.clock import Clock, FakeClock
from tests.fault.engine import Engine, PrivateEngine
from tests.fault.house import ROOT, House, a_house
from tests.fault.play import Result, play
from tests.fault.tell import document, last_line
from tests.support.disks import ext4_disk

GIB = 1024**3
AT_ONCE = 2  # lanes beside each other


def main() -> int:
    options = _options()
    matrix = read_matrix()
    chosen = _chosen(matrix, options)
    if options.lane is not None:
        return run_lane(options.lane, chosen)
    results = _quickly(chosen) if options.quick else list(_beside_each_other(chosen))
    if options.document is not None:
        options.document.write_text(document(matrix, results))
    for result in results:
        for problem in result.problems:
            print(f"FAILED {result.cell}: {problem}")
    print(last_line(chosen, results))
    return 0 if len(results) == len(chosen) and all(result.passed for result in results) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.fault.run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few cells, in at most three minutes")
    parser.add_argument("--cells", nargs="*", default=(), help="only cells whose name contains one of these")
    parser.add_argument("--document", type=Path, help="write the results as a page")
    parser.add_argument("--lane", choices=LANES, help=argparse.SUPPRESS)
    return parser.parse_args()


def _chosen(matrix: Matrix, options: argparse.Namespace) -> list[Cell]:
    cells = [cell for cell in matrix.declared if not options.quick or cell.name in quick_cells()]
    if options.cells:
        cells = [cell for cell in cells if any(text in cell.name for text in options.cells)]
    if options.lane is not None:
        cells = [cell for cell in cells if cell.lane == options.lane]
    return cells


def _quickly(cells: Sequence[Cell]) -> list[Result]:
    with house_for("disk" if any(cell.lane == "disk" for cell in cells) else "kill") as house:
        return [_told(play(house, cell)) for cell in cells]


def run_lane(lane: str, cells: Sequence[Cell]) -> int:
    """Each result is a line of JSON; a house in which a cell failed is replaced by a new one."""
    left = list(cells)
    while left:
        with house_for(lane) as house:
            while left:
                result = play(house, left.pop(0))
                print(json.dumps(asdict(result)), flush=True)
                if not result.passed:
                    break
    return 0


@contextmanager
def house_for(lane: str) -> Iterator[House]:
    with ExitStack() as stack:
        clock, engine = Clock(), Engine()
        disks: dict[str, Path] = {}
        if lane == "clock":
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="pdc-", dir="/tmp")))
            folder.chmod(0o755)
            clock = FakeClock(folder / "clock")
        if lane.startswith("dockerd"):
            folder = Path("/tmp", f"pd-{lane}")
            folder.mkdir(exist_ok=True)
            engine = PrivateEngine(folder, live_restore=lane == "dockerd-live")
            stack.callback(engine.stop)
            engine.start()
            engine.load()
        if lane == "disk-engine":
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="pdk-", dir="/tmp")))
            disks["engine"] = stack.enter_context(ext4_disk(folder / "data", size=2 * GIB))
            engine = PrivateEngine(folder, live_restore=False)
            stack.callback(engine.stop)
            engine.start()
            engine.load()
        small, pooled = lane == "disk", lane == "pgbouncer"
        yield stack.enter_context(a_house(engine, clock, disks=disks, small=small, pooled=pooled))


def _beside_each_other(cells: Sequence[Cell]) -> Iterator[Result]:
    """A process for each lane: a house belongs to its main thread."""
    waiting = [lane for lane in LANES if any(cell.lane == lane for cell in cells)]
    running: list[subprocess.Popen[str]] = []
    names = [cell.name for cell in cells]
    with TemporaryDirectory(prefix="pdl-") as folder:
        files = {lane: Path(folder, lane) for lane in waiting}
        seen = dict.fromkeys(files, 0)
        while waiting or running:
            running = [process for process in running if process.poll() is None]
            while waiting and len(running) < AT_ONCE:
                lane = waiting.pop(0)
                with files[lane].open("w") as out:
                    command = [sys.executable, "-m", "tests.fault.run", "--lane", lane, "--cells", *names]
                    running.append(subprocess.Popen(command, stdout=out, text=True, cwd=ROOT))
            for lane, file in files.items():
                for line in file.read_text().splitlines()[seen[lane] :] if file.exists() else ():
                    seen[lane] += 1
                    yield _told(_read(line))
            time.sleep(0.5)


def _read(line: str) -> Result:
    said = json.loads(line)
    return Result(**said | {"problems": tuple(said["problems"])})


def _told(result: Result) -> Result:
    seconds = "-" if result.seconds is None else f"{result.seconds:.1f} s"
    verdict = "ok" if result.passed else "FAILED " + "; ".join(result.problems)
    print(f"{result.cell}: {result.ended}, {result.attempts} attempts, {seconds}: {verdict}", flush=True)
    return result


if __name__ == "__main__":
    raise SystemExit(main())
