"""A reading as Prometheus has it. The first scrape imports this, and with it the client library."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.process_collector import ProcessCollector

from mooring.timings import BOUNDS_S, Timing

if TYPE_CHECKING:
    from mooring.metrics.reading import Seen

MEDIA = CONTENT_TYPE_LATEST


def expose(seen: Seen) -> bytes:
    """Return the reading as text."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(seen))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class _Collector:
    """Hands one reading to a registry."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    def collect(self) -> Iterator[Metric]:
        yield from self._operations()
        yield from self._hosts()
        yield from self._times()

    def _operations(self) -> Iterator[Metric]:
        states = _gauge("mooring_operations", "Operations under way.", "kind", "state")
        oldest = _gauge("mooring_operation_oldest_seconds", "Age of the oldest.", "kind", "state")
        stuck = _gauge("mooring_operations_stuck", "Tried for over an hour.", "kind")
        undo = _gauge("mooring_undo_failures", "Failed attempts to undo what goes back.", "kind")
        stuck_of: dict[tuple[str, str], int] = {}
        undo_of: dict[tuple[str, str], int] = {}
        for work in self._seen.work:
            kind = (work.service, work.kind)
            states.add_metric([*kind, work.state], work.count)
            oldest.add_metric([*kind, work.state], work.oldest_s)
            stuck_of[kind] = stuck_of.get(kind, 0) + work.stuck
            undo_of[kind] = undo_of.get(kind, 0) + work.failures
        for family, counts in ((stuck, stuck_of), (undo, undo_of)):
            for kind, count in counts.items():
                family.add_metric(kind, count)
        yield from (states, oldest, stuck, undo)

    def _hosts(self) -> Iterator[Metric]:
        debts = _gauge("mooring_debts", "What a host is to undo once it is back.", "host")
        oldest = _gauge("mooring_debt_oldest_seconds", "Age of the oldest of them.", "host")
        silent = _gauge("mooring_host_silent_seconds", "Since a host answered last.", "host")
        for owed in self._seen.owed:
            debts.add_metric([owed.service, owed.host], owed.count)
            oldest.add_metric([owed.service, owed.host], owed.oldest_s)
        for place, seconds in self._seen.silent_s.items():
            silent.add_metric(place, seconds)
        yield from (debts, oldest, silent)
        certified = GaugeMetricFamily(
            "mooring_host_certified_seconds", "Until a certificate ends.", labels=["host"]
        )
        for host, seconds in self._seen.certified_s.items():
            certified.add_metric([host], seconds)
        yield certified

    def _times(self) -> Iterator[Metric]:
        commits = HistogramMetricFamily(
            "mooring_commit_seconds", "Commits that wrote.", labels=["service"]
        )
        labels = ["service", "method", "route"]
        times = HistogramMetricFamily("mooring_request_seconds", "Requests.", labels=labels)
        codes = CounterMetricFamily("mooring_requests", "Requests.", labels=[*labels, "code"])
        for service, timing in self._seen.commits.items():
            commits.add_metric([service], _buckets(timing), timing.sum_s)
        for place, timing in self._seen.requests.items():
            times.add_metric(place, _buckets(timing), timing.sum_s)
        for (place, code), count in self._seen.answers.items():
            codes.add_metric([*place, str(code)], count)
        yield from (commits, times, codes)


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=["service", *labels])


def _buckets(timing: Timing) -> list[tuple[str, float]]:
    """Return the counts as Prometheus adds them up: each has those before it too."""
    found: list[tuple[str, float]] = []
    total = 0
    for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), list(timing.counts), strict=True):
        total += count
        found.append((bound, total))
    return found
