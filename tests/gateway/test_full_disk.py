"""A full run directory: no door opens, the gateway goes on, and the next question finds room."""

import pytest

from pidispatch.errors import GatewayUnavailable
from tests.gateway.parts import UnixClient
from tests.support.disks import small_disk


def test_a_door_that_finds_no_room_is_opened_at_the_next_try(make_house, run_dir):
    with small_disk(run_dir) as disk:
        house = make_house()
        try:
            disk.fill()
            with pytest.raises(GatewayUnavailable, match="No space left on device"):
                house.open(7)
            assert house.doors.ready()

            disk.free()
            client = UnixClient(house.open(7))
            assert client.ask("GET", "/budget")[0] == 200
            client.close()
            house.doors.remove(7)
        finally:
            house.gateway.stop()
            house.gateway.stop = lambda: None
