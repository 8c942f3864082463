"""Notes in memory: nothing outlives the process but what a test says was left behind."""

from contextlib import nullcontext


class FakeNotes:
    """`ports.Notes`. Add to `looks` and `finishes` what workers that ended had in hand."""

    def __init__(self):
        self.looks: list[tuple[int, int]] = []
        self.finishes: list[int] = []

    def looking_at(self, run_id, epoch):
        return nullcontext()

    def finishing(self, run_id):
        return nullcontext()

    def lookers_lost(self):
        return list(self.looks)

    def finishers_lost(self, run_id):
        return self.finishes.count(run_id)
