"""The server on Ray Serve: as many replicas as the load needs, on one machine or on many.

    serve run asr.streaming.server.ray:app max_sessions=96 search=greedy

`app` builds a Serve application of one deployment, `AsrStream`. Each replica is a process with a recognizer of its own,
and serves what `asr-stream serve` serves over HTTP and WebSockets; Ray's proxy gives each new WebSocket to one of the
replicas, where it stays. Ray's own behavior with WebSockets, and what is done about it here:

- An open WebSocket counts as a request, and Ray lets a replica have five: the rest would wait in the handshake without
  an answer. Here it may have more than `max_sessions`, so that the replica itself refuses with 503.
- Ray notifies a replica of its end only after its last request. `drain` reads Ray's mark instead and stops the
  server at once: sessions send their finals and close with 1001, and clients connect again, to another replica.
- Prometheus would see one replica, at random, behind `/metrics`. `export_metrics` gives the numbers of each to Ray,
  which exports those of all replicas.
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

from asr.streaming.server.app import create_app
from asr.streaming.server.cli import limits_of, new_parser
from asr.streaming.server.metrics import Metrics
from asr.streaming.server.security.access import Access
from asr.streaming.server.security.log import set_up_logging
from asr.streaming.server.server import Server
from asr.streaming.terminal.options import new_recognizer

logger = logging.getLogger("asr_stream.server")

DEPLOYMENT = "AsrStream"
NOT_HERE = ("port", "wyoming_port", "wyoming_host", "wyoming_text")
"""Options of `asr-stream serve` that only a process with ports of its own has."""
DRAIN_POLL_S = 0.1
METRICS_EVERY_S = 1.0
HEALTH_CHECK_PERIOD_S = 2.0
"""How long Ray takes to notice that a replica was killed, and to start another: by default 10 s."""
SHUTDOWN_MARGIN_S = 4.0
"""For the close frames and Ray's own steps, after the sessions had their `shutdown_s`."""


def app(arguments: dict[str, Any]) -> serve.Application:
    """The application. arguments: options of `asr-stream serve`, such as `{"chunk_ms": 320, "max_sessions": 96}`.

    Raises ValueError for an unknown option or a value out of range. The model is read by each replica.
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
    """`arguments` as the command line has them: true for an option without a value, a list for a repeated one."""
    parser = new_parser()

    def fail(message: str) -> NoReturn:
        raise ValueError(message)

    parser.error = fail  # it would end the process
    argv: list[str] = []
    for name, value in arguments.items():
        if name in NOT_HERE:
            raise ValueError(f"{name}: Ray's proxy listens, not this server; see http_options of Ray Serve")
        option = f"--{name.replace('_', '-')}"
        for each in value if isinstance(value, (list, tuple)) else [value]:
            switch = str(each).lower()
            if switch != "false":
                argv.append(option if switch == "true" else f"{option}={each}")
    return parser.parse_args(argv)


def replica(args: argparse.Namespace) -> Starlette:
    """The application of one replica, within its event loop."""
    set_up_logging()
    recognizer = new_recognizer(args)
    cores = get_runtime_context().get_assigned_resources().get("CPU", 1)
    server = Server(recognizer, limits_of(args), args.threads or max(1, round(cores)))
    server.measure()
    token = os.environ.get("ASR_STREAM_TOKEN", "")
    starlette = create_app(server, Access(args.host, tuple(args.allow_origin), token))
    inner = starlette.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[Any]:
        tasks = [asyncio.create_task(drain(server)), asyncio.create_task(export_metrics(server.metrics))]
        async with inner(app) as state:
            yield state
        for task in tasks:
            task.cancel()

    starlette.router.lifespan_context = lifespan
    return starlette


async def drain(server: Server) -> None:
    """Stops `server` when Ray is about to end this replica."""
    is_draining = ray_mark()
    while not is_draining():
        await asyncio.sleep(DRAIN_POLL_S)
    logger.info("this replica ends: %d sessions send their finals", len(server.sessions))
    server.stopping.set()


def ray_mark() -> Callable[[], bool]:
    """Whether Ray has begun to end this replica. It has no public sign of that: an internal of Ray 2.60, which any
    release may change, so pyproject.toml names the releases that work."""
    worker: Any = global_worker
    actor = worker.actors[worker.core_worker.get_actor_id()]
    return lambda: actor._replica_impl._shutting_down


async def export_metrics(metrics: Metrics) -> None:
    """Gives all numbers to Ray again and again, as `ray_asr_stream_...` with the replica's name."""
    gauges: dict[str, Gauge] = {}
    name = serve.get_replica_context().replica_tag
    while True:
        for sample in metrics.samples():
            if sample.name not in gauges:
                gauges[sample.name] = Gauge(sample.name, tag_keys=(*sample.labels, "replica"))
            gauges[sample.name].set(sample.value, {**sample.labels, "replica": name})
        await asyncio.sleep(METRICS_EVERY_S)
