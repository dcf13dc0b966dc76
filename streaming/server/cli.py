"""`asr-stream serve`: the command line of the server."""

from __future__ import annotations

import argparse
import asyncio
import errno
import gc
import ipaddress
import logging
import os
import re
import socket
import ssl
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import fields
from types import FrameType
from typing import TYPE_CHECKING

from asr import __version__
from asr.command import Parser, ending_signals, how_to_install
from asr.options import flag
from asr.streaming.server.security.descriptors import BACKLOG, provide
from asr.streaming.server.security.limits import Limits
from asr.streaming.server.security.log import LOG_FORMATS, set_up_logging
from asr.streaming.server.security.tls import server_context
from asr.streaming.terminal.options import add_recognition_options, print_error, recognizer_or_error

logger = logging.getLogger("asr_stream.server")
if TYPE_CHECKING:
    from asr.streaming.recognizer import Recognizer

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?|null")
KEEPALIVE = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Seconds of silence before a probe, seconds between probes, and the number of probes without an answer."""
EPILOG = """\
examples:
  asr-stream serve                               for this machine, port 8000
  asr-stream serve --chunk-ms 320 --port 9000    lower latency
  asr-stream serve --hotwords names.txt          names and terms to expect
  asr-stream serve --wyoming-port 10300 --wyoming-host 0.0.0.0
                                                 for Home Assistant elsewhere
  ASR_STREAM_TOKEN=secret asr-stream serve --host 0.0.0.0
                                                 for clients elsewhere

exit status:
  0   ended by SIGTERM, SIGHUP or Ctrl-C, after all finals were sent
  1   the model cannot be used, or the address is in use
  2   the command line is wrong
  130 interrupted by Ctrl-C during startup
"""


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns its exit status."""
    parser = new_parser()
    args = parser.parse_args(argv)
    for name in ("wyoming_host", "wyoming_text"):
        if args.wyoming_port is None and (value := getattr(args, name)) is not None:
            parser.error(f"{flag(name)} {value} is for Wyoming, which is off: add --wyoming-port, such as 10300")
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        print_error(f"the server needs more packages: {how_to_install('server')}")
        return 1
    if (args.tls_cert is None) != (args.tls_key is None):
        parser.error("TLS needs a certificate and its key: give both --tls-cert and --tls-key, or neither")
    try:
        limits = limits_of(args)
    except ValueError as error:
        parser.error(str(error))
    from asr.streaming.server.security.access import LOOPBACK

    set_up_logging(args.log_format)
    token = os.environ.get("ASR_STREAM_TOKEN", "")
    if args.host not in LOOPBACK and not token:
        logger.warning("anyone who reaches %s may use this server: set ASR_STREAM_TOKEN", args.host)
    return _serve(args, parser, limits, token)


def new_parser() -> Parser:
    """The options of the server."""
    parser = Parser(
        prog="asr-stream serve",
        description="Serve live transcription: OpenAI's API (files and Realtime), vosk-server's\n"
        "protocol, Wyoming, and a page for browsers. If the environment variable\n"
        "ASR_STREAM_TOKEN is set, clients must send it.",
        epilog=EPILOG,
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1: this machine)")
    parser.add_argument("--port", type=_port, default=8000, help="default 8000; 0 chooses a free port")
    parser.add_argument(
        "--wyoming-port", type=_port, metavar="PORT", help="also serve Wyoming; its usual port is 10300"
    )
    parser.add_argument(
        "--wyoming-host",
        metavar="HOST",
        help="address for Wyoming, which has no authentication: anyone who can reach it may use it (default 127.0.0.1)",
    )
    parser.add_argument(
        "--wyoming-text",
        choices=("formatted", "plain"),
        help="text for Wyoming clients (default plain: punctuation would keep assistants from understanding commands)",
    )
    parser.add_argument(
        "--allow-origin",
        action="append",
        type=_origin,
        default=[],
        metavar="URL",
        help="allow pages of this origin to use the server",
    )
    parser.add_argument(
        "--tls-cert", metavar="FILE", help="certificate chain in PEM: serve https and wss; Wyoming has no TLS"
    )
    parser.add_argument("--tls-key", metavar="FILE", help="private key of the certificate, in PEM, without a password")
    parser.add_argument(
        "--proxy",
        action="append",
        type=_proxy,
        default=[],
        metavar="ADDRESS",
        help="address or network of a reverse proxy; the log then has the client's address from its X-Forwarded-For",
    )
    parser.add_argument("--log-format", choices=LOG_FORMATS, default=LOG_FORMATS[0], help="of the log (default text)")
    add_recognition_options(parser, without=("max_alternatives",))  # clients that show others ask for them
    parser.add_argument(
        "--threads", type=_threads, default=0, metavar="N", help="recognition threads (default: one per core)"
    )
    limits = parser.add_argument_group("limits")
    for field in fields(Limits):
        limits.add_argument(
            flag(field.name),
            type=int if field.type == "int" else float,
            default=field.default,
            metavar="N" if field.type == "int" else "S" if field.name.endswith("_s") else "PERCENT",
            help=f"{field.metadata['help']} (default {field.default:.10g})",
        )
    return parser


def _port(text: str) -> int:
    if text.isascii() and text.isdigit() and (port := int(text)) <= 65535:
        return port
    raise argparse.ArgumentTypeError(f"{text} is not a port; choose 1 to 65535, or 0 for a free port")


def _origin(text: str) -> str:
    """In the form in which browsers send it: lower case, without a path."""
    url = text.lower().rstrip("/")
    if not _ORIGIN.fullmatch(url):
        raise argparse.ArgumentTypeError(
            f"{text} is not an origin; give scheme, host and any port, in ASCII, such as https://example.org:8443"
        )
    return url


def _proxy(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text} is not an IP address or network; give one such as 127.0.0.1 or 10.0.0.0/8"
        ) from error


def _threads(text: str) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    raise argparse.ArgumentTypeError(f"{text} is not a number of threads; choose 0 for one per core, or more")


def limits_of(args: argparse.Namespace) -> Limits:
    """Raises ValueError for values out of range."""
    return Limits(**{field.name: getattr(args, field.name) for field in fields(Limits)})


def _serve(args: argparse.Namespace, parser: argparse.ArgumentParser, limits: Limits, token: str) -> int:
    try:
        tls = None if args.tls_cert is None else server_context(args.tls_cert, args.tls_key)
        listening = listen(args.host, args.port)
        provide(limits, num_ports=1 + (args.wyoming_port is not None))
        wyoming = None
        if args.wyoming_port is not None:
            wyoming = listen(args.wyoming_host or "127.0.0.1", args.wyoming_port, "wyoming_")
    except ValueError as error:
        print_error(error)
        return 1
    recognizer = recognizer_or_error(args, parser)
    if recognizer is None:
        return 1
    asyncio.run(_run(recognizer, limits, args, token, tls, listening, wyoming))
    return 0


def listen(host: str, port: int, prefix: str = "") -> socket.socket:
    """prefix: of the two options. Raises ValueError for an address that cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Passes the protocol number, because asyncio sets TCP_NODELAY only on connections of such sockets.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Limits the kernel's buffers per client, which would otherwise grow to megabytes in each direction.
    for direction in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        listening.setsockopt(socket.SOL_SOCKET, direction, 128 * 1024)
    # The kernel ends connections of clients that are gone: protocols without pings would wait for them until `idle_s`.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if number := getattr(socket, name, None):  # macOS and Windows lack some
            listening.setsockopt(socket.IPPROTO_TCP, number, value)
    try:
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        is_host = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
        option = flag(f"{prefix}{'host' if is_host else 'port'}")
        raise ValueError(
            f"cannot listen on {host} port {port}: {error.strerror}; choose another with {option}"
        ) from error
    return listening


def _shown(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _run(
    recognizer: Recognizer,
    limits: Limits,
    args: argparse.Namespace,
    token: str,
    tls: ssl.SSLContext | None,
    listening: socket.socket,
    wyoming_listening: socket.socket | None,
) -> None:
    import uvicorn

    from asr.streaming.server.app import create_app
    from asr.streaming.server.protocols import wyoming
    from asr.streaming.server.security.access import Access
    from asr.streaming.server.security.connections import CLOSE_TIMEOUT_S, is_closing, server_config
    from asr.streaming.server.server import Server

    server = Server(recognizer, limits, args.threads)
    server.measure()
    app = create_app(server, Access(args.host, tuple(args.allow_origin), token))

    class Uvicorn(uvicorn.Server):
        """Ends after the sessions have sent their finals."""

        ending: asyncio.Task | None = None

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(self._end)

        def _end(self) -> None:
            if self.ending is not None:
                self.force_exit = True
                logging.getLogger("uvicorn.error").disabled = True  # it would report canceled tasks
            self.ending = self.ending or loop.create_task(self._stop())

        async def _stop(self) -> None:
            await server.stop()
            # If a connection is closed while the client is still sending, unread replies are discarded.
            end = loop.time() + CLOSE_TIMEOUT_S
            while any(map(is_closing, self.server_state.connections)) and loop.time() < end:
                await asyncio.sleep(0.02)
            self.should_exit = True

    loop = asyncio.get_running_loop()
    uvicorn_server = Uvicorn(server_config(app, limits, server.connections, tls, args.proxy))
    for number in set(ending_signals()) - set(uvicorn.server.HANDLED_SIGNALS):
        loop.add_signal_handler(number, uvicorn_server.handle_exit, number, None)
    gc.collect()
    gc.freeze()  # a full collection would visit all objects made so far, for 50 ms
    async with AsyncExitStack() as stack:
        logger.info("asr-stream %s, limits: %s", __version__, limits, extra={"fields": {"version": __version__}})
        if wyoming_listening is not None:
            await stack.enter_async_context(wyoming.listening(server, wyoming_listening, args.wyoming_text or "plain"))
            logger.info("Listening on tcp://%s for Wyoming", _shown(wyoming_listening))
        logger.info("Listening on %s://%s ... Ctrl-C ends", "https" if tls else "http", _shown(listening))
        await uvicorn_server.serve(sockets=[listening])
