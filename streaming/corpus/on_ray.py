"""Transcribes a corpus on a Ray cluster: workers of Ray Data write the same files into the same folder.

The folder of the texts and the recordings must have the same paths on all machines. Ray restarts workers that died,
with their recordings; a recording that killed a worker is not tried again in the same run.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from asr.command import how_to_install
from asr.streaming.corpus.texts import Done, Task
from asr.streaming.corpus.workers import Outcome, error_line
from asr.tables import Recording

_BLOCK = 8
"""Recordings per call of a worker."""


def run_on_ray(
    task: Task, recordings: Sequence[Recording], address: str, num_workers: int | None
) -> Generator[Outcome, None, None]:
    """Yields outcomes as they complete. num_workers: None means one per CPU of the cluster.

    Raises ValueError if Ray is not installed or the options are invalid, ConnectionError if there is no cluster.
    """
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ValueError(f"--ray needs more packages ({error}): {how_to_install('ray')}") from error
    if not recordings:
        return
    task.recognizer()  # reports wrong options once instead of in every worker
    ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    logging.getLogger("ray.data").setLevel(logging.ERROR)  # hides its plan and a note about progress bars
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        most = num_workers or int(ray.cluster_resources().get("CPU", 1))
        by_id = {recording.id: recording for recording in recordings}
        items = [{"id": each.id, "audio": str(each.audio), "speaker": each.speaker or ""} for each in recordings]
        data: Any = ray.data.from_items(items, override_num_blocks=-(-len(items) // _BLOCK))
        results = data.map(
            RayWorker,
            fn_constructor_args=(task, secrets.token_hex(8)),
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=min(most, len(items))),
            num_cpus=1,
        )
        for result in results.iter_rows():
            done = Done(result["audio_s"], tuple(result["warnings"]))
            yield Outcome(by_id[result["id"]], done, result["error"])
    finally:
        ray.shutdown()


class RayWorker:
    """A worker of Ray Data."""

    def __init__(self, task: Task, run: str) -> None:
        """run: an identifier of this run."""
        self._task, self._run = task, run
        self._recognizer = task.recognizer()

    def __call__(self, item: dict[str, Any]) -> dict[str, Any]:
        recording = Recording(item["id"], Path(item["audio"]), item["speaker"] or None)
        done, message = Done(0.0), ""
        begun = self._task.out / f"{recording.id}.begun"
        try:
            if self._task.is_done(recording):  # done by a worker that died at a later recording
                done = Done(self._task.row(recording)["duration"])
            elif begun.exists() and begun.read_text() == self._run:
                message = "its worker died, perhaps out of memory"
                self._task.discard_parts(recording)
            else:
                begun.parent.mkdir(parents=True, exist_ok=True)
                begun.write_text(self._run)
                done = self._task.do(self._recognizer, recording)
        except Exception as error:
            message = error_line(error)
        with contextlib.suppress(OSError):
            begun.unlink()
        return {"id": recording.id, "audio_s": done.audio_s, "warnings": list(done.warnings), "error": message}
