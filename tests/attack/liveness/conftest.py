import pytest

from tests.flows.site import Site


@pytest.fixture
def site(database):
    return Site(database)
