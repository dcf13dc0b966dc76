"""The server on Ray Serve: as many replicas as the load needs, on one or many machines.

    serve run asr.streaming.server.ray:app max_sessions=96 search=greedy

`app` builds a Serve application with one deployment, `AsrStream`. Each replica is a process with its own recognizer and
serves what `asr-stream serve` serves over HTTP and WebSockets. Ray's proxy assigns each new WebSocket to a replica,
where it stays. Ray's behavior with WebSockets needs some care:

- An open WebSocket counts as a request, and by default Ray lets a replica have five; the others would wait in the
  handshake. Here the limit exceeds `max_sessions`, so that the replica itself refuses with 503.
- Ray notifies a replica of its shutdown only after its last request. `drain` instead reads Ray's internal mark and
  stops the server immediately: sessions send their finals and close with 1001; clients reconnect to another replica.
- A scrape of `/metrics` would reach one random replica. `export_metrics` passes the metrics of each replica to Ray,
  which exports them all.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NoReturn

from ray import get_runtime_context, serve
from ray._private.worker import global_worker
from ray.util.metrics import Gauge
from starlette.applications import Starlette

from asr.options import OPTIONS, flag
from asr.streaming.server.app import create_app
from asr.streaming.server.cli import limits_of, new_parser
from asr.streaming.server.metrics import Metrics
from asr.streaming.server.security.access import Access
from asr.streaming.server.security.log import set_up_logging
from asr.streaming.server.server import Server
from asr.streaming.terminal.options import new_recognizer

logger = logging.getLogger("asr_stream.server")

DEPLOYMENT = "AsrStream"
NOT_HERE = ("port", "wyoming_port", "wyoming_host", "wyoming_text", "tls_cert", "tls_key", "proxy")
"""Options of `asr-stream serve` that need a process with its own ports."""
DRAIN_POLL_S = 0.1
METRICS_EVERY_S = 1.0
HEALTH_CHECK_PERIOD_S = 2.0
"""Time that Ray takes to notice a killed replica and to start another; Ray's default is 10 s."""
SHUTDOWN_MARGIN_S = 4.0
"""Time for the close frames and Ray's own steps, after the `shutdown_s` of the sessions."""


def app(arguments: dict[str, Any]) -> serve.Application:
    """The application. arguments: options of `asr-stream serve`, such as `{"chunk_ms": 320, "max_sessions": 96}`.

    Raises ValueError for an unknown option or a value out of range. Each replica reads the model.
    """
    args = parse(arguments)
    limits = limits_of(args)

    def build() -> Starlette:
        return replica(args)

    deployment: Any = serve.deployment(serve.ingress(build)())
    deployment = deployment.options(
        name=DEPLOYMENT,
        max_ongoing_requests=limits.max_connections,
        health_check_period_s=HEALTH_CHECK_PERIOD_S,
        graceful_shutdown_wait_loop_s=0.2,
        graceful_shutdown_timeout_s=limits.shutdown_s + SHUTDOWN_MARGIN_S,
    )
    return deployment.bind()


def parse(arguments: Mapping[str, Any]) -> argparse.Namespace:
    """Parses `arguments` like a command line: true for an option without a value, false to turn a flag off, a list for
    a repeated option."""
    parser = new_parser()

    def fail(message: str) -> NoReturn:
        raise ValueError(message)

    parser.error = fail  # the original would end the process
    argv: list[str] = []
    for name, value in arguments.items():
        if name in NOT_HERE:
            raise ValueError(f"{name}: Ray's proxy listens, not this server; see http_options of Ray Serve")
        for each in value if isinstance(value, (list, tuple)) else [value]:
            switch = str(each).lower()
            if switch == "true":
                argv.append(flag(name))
            elif switch != "false":
                argv.append(f"{flag(name)}={each}")
            elif name in OPTIONS:  # it may be on by default
                argv.append(flag(f"no_{name}"))
    return parser.parse_args(argv)


def replica(args: argparse.Namespace) -> Starlette:
    """The application of one replica; call it in the replica's event loop."""
    set_up_logging(args.log_format)
    recognizer = new_recognizer(args)
    cores = get_runtime_context().get_assigned_resources().get("CPU", 1)
    server = Server(recognizer, limits_of(args), args.threads or max(1, round(cores)))
    server.measure()
    token = os.environ.get("ASR_STREAM_TOKEN", "")
    starlette = create_app(server, Access(args.host, tuple(args.allow_origin), token))
    inner = starlette.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[Any]:
        tasks = [asyncio.create_task(drain(server, ray_mark())), asyncio.create_task(export_metrics(server.metrics))]
        async with inner(app) as state:
            yield state
        for task in tasks:
            task.cancel()

    starlette.router.lifespan_context = lifespan
    return starlette


async def drain(server: Server, is_draining: Callable[[], bool]) -> None:
    """Stops `server` when Ray is about to end this replica."""
    while not is_draining():
        await asyncio.sleep(DRAIN_POLL_S)
    logger.info("this replica ends: %d sessions send their finals", len(server.sessions))
    server.stopping.set()


def ray_mark() -> Callable[[], bool]:
    """Returns a function that tells whether Ray has begun to end this replica. There is no public API for this. The
    function reads an internal of Ray 2.60, which any release may change, so pyproject.toml lists the releases that
    work. With another, this raises."""
    worker: Any = global_worker
    actor = worker.actors[worker.core_worker.get_actor_id()]

    def mark() -> bool:
        return actor._replica_impl._shutting_down

    mark()
    return mark


async def export_metrics(metrics: Metrics) -> None:
    """Periodically passes all metrics to Ray, as `ray_asr_stream_...` with the replica's name."""
    gauges: dict[str, Gauge] = {}
    name = serve.get_replica_context().replica_tag
    while True:
        for sample in metrics.samples():
            if sample.name not in gauges:
                gauges[sample.name] = Gauge(sample.name, tag_keys=(*sample.labels, "replica"))
            gauges[sample.name].set(sample.value, {**sample.labels, "replica": name})
        await asyncio.sleep(METRICS_EVERY_S)
