"""A costly value is found at most once a second, and nobody waits long for it."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from pidispatch.monitoring.refreshed import Refreshed


def test_many_askers_cost_one_look():
    looks = []

    def find():
        looks.append(1)
        time.sleep(0.05)
        return len(looks)

    kept = Refreshed(find, fresh=60)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: kept.get(), range(50)))

    assert set(found) == {1}


def test_an_old_value_is_found_anew():
    numbers = iter(range(1, 10))
    kept = Refreshed(lambda: next(numbers), fresh=0)

    assert [kept.get(), kept.get()] == [1, 2]


def test_a_look_that_hangs_holds_nobody_and_is_not_doubled():
    looks = []
    go_on = threading.Event()

    def find():
        looks.append(1)
        go_on.wait(30)
        return "late"

    kept = Refreshed(find, fresh=60, patience=0.1)

    assert [kept.get(), kept.get()] == [None, None]
    assert looks == [1]
    go_on.set()
    deadline = time.monotonic() + 10
    while kept.get() != "late":
        assert time.monotonic() < deadline


def test_a_look_that_breaks_is_no_value():
    kept = Refreshed(lambda: 1 / 0, fresh=60, patience=5)

    assert kept.get() is None
