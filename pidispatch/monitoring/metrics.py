"""Write measures as Prometheus reads them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
MOST_SERIES = 200  # of one gauge: a file of limits may name thousands of scopes, a metric must not


@dataclass(frozen=True, slots=True)
class Gauge:
    """One metric: its values by the values of its labels, the most important first."""

    name: str
    documentation: str
    labels: tuple[str, ...] = ()
    values: Mapping[tuple[str, ...], float] = field(default_factory=dict)


def exposition(gauges: Iterable[Gauge]) -> bytes:
    """The text format. What is beyond `MOST_SERIES` is left out, and counted in `pidispatch_series_left_out`."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Fixed(tuple(gauges)))
    return generate_latest(registry)


@dataclass(frozen=True, eq=False)  # the registry keeps it by identity
class _Fixed(Collector):
    gauges: tuple[Gauge, ...]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        left_out = 0
        for gauge in self.gauges:
            family = GaugeMetricFamily(gauge.name, gauge.documentation, labels=gauge.labels)
            for number, (labels, value) in enumerate(gauge.values.items()):
                if number < MOST_SERIES:
                    family.add_metric(labels, value)
                else:
                    left_out += 1
            yield family
        yield GaugeMetricFamily(
            "pidispatch_series_left_out", "Series beyond the most one metric may have", value=left_out
        )
