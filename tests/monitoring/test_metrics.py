"""The text that Prometheus reads, as its own parser reads it."""

from prometheus_client.parser import text_string_to_metric_families

from pidispatch.monitoring.metrics import MOST_SERIES, Gauge, exposition


def read(gauges):
    families = text_string_to_metric_families(exposition(gauges).decode())
    return {
        family.name: {tuple(sorted(each.labels.items())): each.value for each in family.samples}
        for family in families
    }


def test_labels_survive_whatever_they_hold():
    odd = 'folder:/a "b"\\c\nd'

    found = read([Gauge("pidispatch_x", "What it is", ("scope",), {(odd,): 3})])

    assert found["pidispatch_x"] == {(("scope", odd),): 3.0}
    assert found["pidispatch_series_left_out"] == {(): 0.0}


def test_a_metric_has_a_bounded_number_of_series():
    values = {(f"s{number}",): number for number in range(MOST_SERIES + 7)}

    found = read([Gauge("pidispatch_x", "What it is", ("scope",), values)])

    assert len(found["pidispatch_x"]) == MOST_SERIES
    assert found["pidispatch_series_left_out"] == {(): 7.0}


def test_a_metric_without_values_is_no_error():
    assert read([Gauge("pidispatch_x", "What it is", ("scope",), {})])["pidispatch_x"] == {}
