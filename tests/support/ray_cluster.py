"""A Ray cluster of this machine with the application of examples/ray/serve.yaml."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from support.ports import free_port

CONFIG = Path(__file__).parents[2] / "examples" / "ray" / "serve.yaml"
WAIT_S = 300.0


@dataclass
class Cluster:
    """Ray Serve with the application. `url`: the URL of its proxy."""

    port: int
    metrics_port: int
    config: dict[str, Any]

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/vosk"

    def scale(self, num_replicas: int) -> None:
        """Sets the number of replicas; returns when exactly this number runs."""
        from ray.serve.schema import ServeDeploySchema

        self.config["applications"][0]["deployments"][0]["num_replicas"] = num_replicas
        self._client().deploy_apps(ServeDeploySchema(**self.config))
        until(lambda: [each["state"] for each in self.replicas()] == ["RUNNING"] * num_replicas)

    def deployment(self) -> dict[str, Any]:
        details = self._client().get_serve_details()["applications"]["asr-stream"]
        assert details["status"] != "DEPLOY_FAILED", details["message"]
        return details["deployments"].get("AsrStream", {"replicas": []})

    def replicas(self) -> list[dict[str, Any]]:
        return self.deployment()["replicas"]

    def sessions(self) -> dict[str, int]:
        """Open sessions of each running replica, from Ray's metrics endpoint."""
        names = {each["replica_id"] for each in self.replicas()}
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics") as answer:
            families = text_string_to_metric_families(answer.read().decode())
        samples = [each for family in families for each in family.samples if each.name == "ray_asr_stream_sessions"]
        return {s.labels["replica"]: int(s.value) for s in samples if s.labels["replica"] in names}

    @staticmethod
    def _client() -> Any:
        from ray.serve.context import _get_global_client

        return _get_global_client()


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end, "it does not come about"
        time.sleep(0.1)


def start_node() -> int:
    """Starts Ray on this machine, and returns the port of its metrics. Ray waits 30 s for its processes: not always
    enough while other tests run."""
    import ray

    for last in (False, False, True):
        port = free_port()
        try:
            ray.init(
                num_cpus=8,
                include_dashboard=False,
                log_to_driver=False,
                object_store_memory=100_000_000,
                _metrics_export_port=port,
                _system_config={"metrics_report_interval_ms": 500},
            )
            return port
        except Exception as error:
            ray.shutdown()
            if last or "timed out during startup" not in str(error):
                raise
    raise AssertionError


@contextmanager
def cluster(monkeypatch: pytest.MonkeyPatch, **arguments: Any) -> Iterator[Cluster]:
    """Runs the application of CONFIG with `arguments`; no replica runs before `scale` is called."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # otherwise it writes a token into the home folder
    for check in ("READY", "HEALTH"):  # on a busy machine, a proxy that starts more slowly would be killed
        monkeypatch.setenv(f"RAY_SERVE_PROXY_{check}_CHECK_TIMEOUT_S", "60")
    monkeypatch.setenv("RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH", "asr.streaming.server.ray_proxy:middlewares")
    import ray
    from ray import serve

    ports = free_port(), start_node()
    config = yaml.safe_load(CONFIG.read_text())
    config["applications"][0]["args"] |= arguments
    deployment = config["applications"][0]["deployments"][0]
    del deployment["autoscaling_config"]
    try:
        serve.start(http_options=config["http_options"] | {"port": ports[0]})
        yield Cluster(*ports, config)
    finally:
        serve.shutdown()
        ray.shutdown()
