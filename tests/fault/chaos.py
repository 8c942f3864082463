"""`python -m tests.fault.chaos [--runs N] [--minutes M] [--seed S]`: many runs while random parts are killed -9."""

import argparse
import os
import random
import time
from collections.abc import Sequence
from itertools import count

from pidispatch.errors import PidispatchError
from tests.fault.blows import Blows
from tests.fault.house import House
from tests.fault.reckoning import Reckoning, install_logs, reckon
from tests.fault.run import house_for
from tests.fault.witness import left_behind

LAST_SUBMITTED = 0.95  # of the time; what is under way at its end still sees kills
PATIENCE = 300.0  # seconds after the last kill until everything must be over
PIECE_SECONDS = 0.1  # between two pieces of a model's answer, so that calls are in flight
TELL_SECONDS = 10.0


def main() -> int:
    options = _options()
    print(f"seed {options.seed}", flush=True)
    with house_for("kill" if options.spare_dockerd else "dockerd-chaos") as house:
        house.provider.pace = lambda _: time.sleep(PIECE_SECONDS)
        install_logs(house)
        chaos = Chaos(house, random.Random(options.seed), runs=options.runs, seconds=options.minutes * 60)
        reckoning = chaos.play()
        tell(reckoning)
        print(last_line(chaos, reckoning))
    return 0 if reckoning.passed else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.fault.chaos", description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3)))
    parser.add_argument(
        "--spare-dockerd", action="store_true", help="use the machine's own engine, which nobody kills"
    )
    return parser.parse_args()


class Chaos:
    """One house, its runs spread over the time, and the blows."""

    def __init__(self, house: House, dice: random.Random, *, runs: int, seconds: float) -> None:
        self._house, self._seconds = house, seconds
        last = seconds * LAST_SUBMITTED
        self._due = sorted([0.0, *(dice.uniform(0, last) for _ in range(runs - 1))])
        self._numbers = count(1)
        self._began = self._told = time.monotonic()
        self.blows = Blows(house, dice)
        self.submitted: list[int] = []

    def play(self) -> Reckoning:
        """Never raises for what the product did wrong: that is in the reckoning."""
        while self._passed < self._seconds or self._due:
            self._step(strike=self._passed < self._seconds)
        end = time.monotonic() + PATIENCE
        while not self._is_over() and time.monotonic() < end:
            self._step(strike=False)
        self._tell()
        self._house.until(self._house.is_well, 60)
        return reckon(self._house, self.submitted, self.blows.kills, self.blows.outages)

    @property
    def _passed(self) -> float:
        return time.monotonic() - self._began

    def _step(self, *, strike: bool) -> None:
        self.blows.tick(strike=strike)
        if self._due and self._passed >= self._due[0] and self.blows.answering:
            self._submit()
        if time.monotonic() - self._told >= TELL_SECONDS:
            self._told = time.monotonic()
            self._tell()
        time.sleep(0.1)

    def _submit(self) -> None:
        """Whoever hears no answer asks again, as another run: what became of the first is seen at the end."""
        try:
            self.submitted.append(self._house.submit(f"chaos-{next(self._numbers):04}"))
        except PidispatchError:
            return
        del self._due[0]

    def _is_over(self) -> bool:
        try:
            left = self._house.value("SELECT count(*) FROM runs WHERE state <> 'ended'")
            return left == 0 and not left_behind(self._house)
        except (PidispatchError, AssertionError):
            return False

    def _tell(self) -> None:
        kills = len(self.blows.kills)
        try:
            states = self._house.rows("SELECT state, count(*) AS n FROM runs GROUP BY state ORDER BY state")
            told = ", ".join(f"{row['n']} {row['state']}" for row in states)
        except PidispatchError:
            told = "Postgres does not answer"
        print(f"{self._passed:4.0f} s: {len(self.submitted)} submitted, {kills} kills; {told}", flush=True)


def tell(reckoning: Reckoning) -> None:
    for line in reckoning.told:
        print(line)
    for what, lines in _wrong(reckoning):
        for line in lines:
            print(f"{what}: {line}")


def _wrong(reckoning: Reckoning) -> Sequence[tuple[str, Sequence[str]]]:
    return (("LOST", reckoning.lost), ("DOUBLED", reckoning.doubled), ("LEAKED", reckoning.leaked))


def last_line(chaos: Chaos, reckoning: Reckoning) -> str:
    wrong = ", ".join(f"{len(lines)} {what.lower()}" for what, lines in _wrong(reckoning))
    return (
        f"chaos: {len(chaos.submitted)} runs, {len(chaos.blows.kills)} kills, {wrong},"
        f" p100 recovery {reckoning.recovery:.1f} s"
    )


if __name__ == "__main__":
    raise SystemExit(main())
