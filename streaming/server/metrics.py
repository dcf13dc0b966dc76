"""Prometheus metrics: the load of the server and its delay. They contain no text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.samples import Sample

if TYPE_CHECKING:
    from asr.streaming.server.server import Server
    from asr.streaming.server.session import Session


class Metrics:
    """The metrics of one server."""

    def __init__(self, server: Server) -> None:
        self._registry = registry = CollectorRegistry()
        scheduler = server.scheduler

        def gauge(name: str, what: str, value: Callable[[], float]) -> None:
            Gauge(name, what, registry=registry).set_function(value)

        gauge("asr_stream_sessions", "Open live sessions", lambda: server.num_open(is_upload=False))
        gauge("asr_stream_max_sessions", "Limit on open live sessions", lambda: server.limits.max_sessions)
        gauge("asr_stream_uploads", "Open uploads", lambda: server.num_open(is_upload=True))
        gauge("asr_stream_max_uploads", "Limit on open uploads", lambda: server.limits.max_uploads)
        gauge("asr_stream_load", "Percent of the time of all threads that live streams need", lambda: server.load)
        gauge("asr_stream_streams_waiting", "Streams and uploads waiting for a thread", lambda: scheduler.num_waiting)
        gauge("asr_stream_network_runs", "Batches computed since the start", lambda: scheduler.num_runs)
        gauge("asr_stream_network_streams", "Streams in these batches, in total", lambda: scheduler.num_served)
        self._ended = Counter("asr_stream_sessions_ended", "Ended sessions", ["protocol"], registry=registry)
        self._refused = Counter("asr_stream_refused", "Refused clients", ["reason"], registry=registry)
        self._audio = Counter(
            "asr_stream_audio_seconds", "Seconds of audio of ended sessions", ["protocol"], registry=registry
        )
        self.delay = Histogram(
            "asr_stream_recognition_seconds",
            "Time from receiving a chunk of live audio to reporting its events",
            buckets=(0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5, 10, 30),
            registry=registry,
        )

    def refused(self, reason: str) -> None:
        self._refused.labels(reason).inc()

    def session_ended(self, protocol: str, session: Session) -> None:
        self._ended.labels(protocol).inc()
        self._audio.labels(protocol).inc(session.audio_s)

    def text(self) -> bytes:
        """The metrics in the Prometheus text format."""
        return generate_latest(self._registry)

    def samples(self) -> Iterator[Sample]:
        """The samples of `text`."""
        for metric in self._registry.collect():
            yield from (sample for sample in metric.samples if not sample.name.endswith("_created"))
