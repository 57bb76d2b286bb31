"""The metrics that exist, with their labels, as Prometheus stores them."""

from leasehold.telemetry.metric_table import METRICS, Kind

# Prometheus adds these to every series that it scrapes.
OF_THE_TARGET = frozenset({"instance", "job"})


def labels_of_series() -> dict[str, frozenset[str]]:
    """Returns the labels of each series. A histogram is three of them."""
    found: dict[str, frozenset[str]] = {}
    for metric in METRICS:
        labels = OF_THE_TARGET | set(metric.labels)
        if metric.kind is Kind.HISTOGRAM:
            found |= {f"{metric.name}_sum": labels, f"{metric.name}_count": labels}
            found[f"{metric.name}_bucket"] = labels | {"le"}
        else:
            found[metric.name] = labels
    return found
