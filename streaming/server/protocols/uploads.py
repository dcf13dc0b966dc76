"""Uploads: a form whose file is written to an unnamed temporary file, which cannot outlive the request.

Each upload is decoded on a thread of its own, so that a file that takes long delays no other work. There are as many
as `max_uploads` at most.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from asr.channels import Channel
from asr.streaming.audio.audio_file import read_blocks
from asr.streaming.server.protocols.common import ProtocolError, shown
from asr.streaming.server.security.limits import MIN_BYTES_PER_S
from asr.streaming.server.server import Server

MAX_FIELDS = 64
MAX_FIELD_BYTES = 65536
BLOCK_S = 1.0
NO_FILE = "send it as field 'file', with a file name"


class Upload:
    """An uploaded file, decoded on a thread. The owner closes it."""

    def __init__(
        self,
        file: IO[bytes],
        max_s: float,
        channel: Channel = "mix",
        start_s: float = 0.0,
        duration_s: float = float("inf"),
    ) -> None:
        """For the arguments see `read_blocks`."""
        self._file = file
        self._closed = threading.Event()
        self.warnings: list[str] = []
        """Trouble that does not end the file."""
        self._blocks = read_blocks(
            file,
            stopped=self._closed.is_set,
            block_s=BLOCK_S,
            max_s=max_s,
            channel=channel,
            warn=self.warnings.append,
            start_s=start_s,
            duration_s=duration_s,
        )
        self._thread = ThreadPoolExecutor(1, "upload")
        self._reading: asyncio.Future[Any] | None = None

    async def next_block(self) -> tuple[Any, int] | None:
        """Samples and sample rate, as from `read_blocks`; None at the end."""
        self._reading = asyncio.get_running_loop().run_in_executor(self._thread, next, self._blocks, None)
        # Retrieves the exception, so that asyncio does not log it if the client has disconnected.
        self._reading.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.wait({self._reading})
        return self._reading.result()

    def close(self) -> None:
        """Deletes the file, immediately or when the thread that reads it returns, which is then soon."""
        self._closed.set()
        if self._reading is not None and not self._reading.done():
            self._reading.add_done_callback(lambda _: self.close())
        else:
            self._thread.shutdown(wait=False)
            self._blocks.close()
            self._file.close()


async def receive_form(request: Request, server: Server) -> tuple[FormData, IO[bytes]]:
    """The form and its file, which the caller closes."""
    limits = server.limits
    kind, parameters = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data":
        raise ProtocolError(
            "the request must be multipart/form-data with the audio as field 'file'", "file", status=415
        )
    charset = parameters.get(b"charset", b"utf-8").decode("latin-1")
    if charset.lower() not in ("utf-8", "utf8"):
        # Other charsets are rejected: some take seconds per megabyte (punycode) or decode to surrogates.
        raise ProtocolError(f"the charset of the form is {shown(charset)}; it must be UTF-8: leave it out", "charset")

    def check_size(num_bytes: int) -> None:
        if num_bytes > limits.max_upload_bytes + MAX_FIELD_BYTES:
            sentence = f"the upload is larger than {limits.max_upload_bytes} bytes: send it in parts, or as MP3 or Opus"
            raise ProtocolError(sentence, "file", "too_large", status=413)

    length = request.headers.get("content-length", "0")
    check_size(int(length[:20]) if length.isascii() and length.isdigit() else 0)

    began = time.monotonic()

    async def body() -> AsyncGenerator[bytes, None]:
        num_bytes, more = 0, True
        while more:
            # Not cancelled from outside: until Python 3.12, `wait_for` ignores that if a message has just come.
            took_s = time.monotonic() - began
            if took_s >= limits.max_session_s:
                raise ProtocolError(f"the upload takes longer than {limits.max_session_s:g} s", status=408)
            if took_s >= limits.slowest_s(num_bytes):
                slow = f"{num_bytes} bytes of the upload came in {took_s:.1f} s"
                raise ProtocolError(f"{slow}; send at least {MIN_BYTES_PER_S} bytes a second", status=408)
            left_s = min(limits.max_session_s, limits.slowest_s(num_bytes)) - took_s
            try:
                message = await asyncio.wait_for(request.receive(), min(limits.timeout_s, left_s))
            except (TimeoutError, asyncio.TimeoutError) as error:
                if left_s < limits.timeout_s:
                    continue
                raise ProtocolError(f"no data arrived for {limits.timeout_s:g} s", status=408) from error
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            if server.stopping.is_set():
                raise ProtocolError("the server is shutting down; try again later", code="stopping", status=503)
            num_bytes += len(message.get("body", b""))
            check_size(num_bytes)
            yield message.get("body", b"")
            more = message.get("more_body", False)

    parser = MultiPartParser(request.headers, body(), max_files=1, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES)
    try:
        form = await parser.parse()
        upload = form.get("file")
        if isinstance(upload, UploadFile):
            await asyncio.to_thread(upload.file.fileno)  # moves it from memory to the disk, where decoders read it
    except OSError as error:
        raise ProtocolError(f"the upload cannot be stored: {error.strerror}; try again later", status=507) from error
    except (MultiPartException, ValueError) as error:
        hint = f" If this is the audio, {NO_FILE}" if "exceeded maximum size" in str(error) else ""
        raise ProtocolError(f"the form cannot be read: {error}{hint}") from error
    if not isinstance(upload, UploadFile):
        raise ProtocolError(f"the audio is missing or cut short: {NO_FILE}", "file")
    return form, upload.file
