"""Access to the server: pages of other origins, host names that resolve to this machine, tokens, ports."""

from __future__ import annotations

import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from starlette.datastructures import Headers
from support import wait_until
from support.raw_sockets import HANDSHAKE, health, rest, tcp
from support.server import RunningServer, serving

from asr.streaming.server.cli import main, new_parser
from asr.streaming.server.security.access import Access, plain_path


@pytest.fixture(scope="module")
def locked() -> Iterator[RunningServer]:
    with serving("--allow-origin", "https://example.org/", token="correct horse") as running:
        yield running


def knock(server: RunningServer, headers: dict[str, str]) -> int:
    """HTTP status of a WebSocket request with these headers."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    with tcp(server.port, HANDSHAKE.replace(b"Host: localhost\r\n", lines.encode("latin-1"))) as client:
        return int(client.recv(12).decode()[9:12])


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 101),
        ({"Origin": "http://localhost:{port}"}, 101),
        ({"Origin": "https://example.org"}, 101),
        ({"Origin": "https://example.com"}, 403),
        ({"Origin": "http://localhost:1"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://[::1"}, 403),
        ({"Host": "attacker.example:{port}"}, 421),
        ({"Host": "attacker.example:{port}", "Origin": "http://attacker.example:{port}"}, 421),
        ({"Host": "localhost.attacker.example"}, 421),
        ({"Host": "[::1"}, 421),
        ({"Host": "LOCALHOST:{port}"}, 101),
        ({"Host": "[::1]:{port}"}, 101),
        ({"Host": "evil.com@127.0.0.1"}, 421),
        ({"Host": "127.0.0.1#evil.com"}, 421),
        ({"Host": "127.0.0.1?evil"}, 421),
        ({"Host": "127.0.0.1/evil"}, 421),
        ({"Host": "127.0.0.1:"}, 421),
        ({"Origin": "http://evil.com@localhost:{port}"}, 403),
        ({"Origin": "http://localhost:{port}/"}, 403),
        ({"Origin": "ftp://localhost:{port}"}, 403),
        ({"Origin": "http://localhost:{port}", "origin": "https://example.com"}, 400),
        ({"Authorization": "Bearer correct horse", "authorization": "Bearer wrong"}, 400),
        ({"Authorization": "Bearer\tcorrect horse"}, 401),
        ({"Authorization": f"Bearer {30000 * 'x'}"}, 400),
        ({f"X-{i}": "x" for i in range(130)}, 400),
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer correct"}, 401),
        ({"Authorization": "Bearer correct horsf"}, 401),
        ({"Authorization": "Bearer correct horses"}, 401),
        ({"Authorization": "Bearer correct hors"}, 401),
        ({"Authorization": "Bearer \xff\xe9"}, 401),
        ({"Authorization": "correct horse"}, 401),
        ({"Authorization": "Basic correct horse"}, 401),
        ({"Authorization": "bearer correct horse"}, 101),
        ({"Authorization": "BEARER  correct%20horse"}, 101),
        ({"Authorization": "", "Sec-WebSocket-Protocol": "correct%20horse"}, 401),
        ({"Authorization": "", "Sec-WebSocket-Protocol": "vosk, openai-insecure-api-key.correct%20horse"}, 101),
        ({"Authorization": "", "Sec-WebSocket-Protocol": "vosk, openai-insecure-api-key.wrong"}, 401),
    ],
)
def test_who_is_let_in(locked: RunningServer, headers: dict[str, str], status: int) -> None:
    usual = {"Host": "localhost:{port}", "Authorization": "Bearer correct horse"}
    said = {name: value.format(port=locked.port) for name, value in (usual | headers).items()}
    assert knock(locked, said) == status


def test_a_probe_without_a_host_is_answered(locked: RunningServer) -> None:
    """Load balancers send such requests; browsers, which another name could deceive, always send a host."""
    with tcp(locked.port, b"GET /healthz HTTP/1.0\r\n\r\n") as client:
        assert client.recv(12) == b"HTTP/1.1 200"
    with tcp(locked.port, b"GET /healthz HTTP/1.0\r\nHost:\r\n\r\n") as client:
        assert client.recv(12) == b"HTTP/1.1 421"


def test_more_slashes_open_nothing() -> None:
    for path in ("//metrics", "/metrics/", "/healthz/../metrics", "///v1/realtime"):
        refusal = Access(token="secret").refusal(plain_path(path), Headers({"host": "localhost"}), websocket=False)
        assert refusal is not None and refusal[0] == 401
    assert [plain_path(path) for path in ("", "/", "//", "/a//b/")] == ["/", "/", "/", "/a/b"]


def test_server_for_others_answers_to_any_name() -> None:
    access, headers = Access("0.0.0.0", token="secret"), {"host": "asr.example:8000"}
    refusal = access.refusal("/vosk", Headers(headers), websocket=True)
    assert refusal is not None and refusal[0] == 401
    headers["authorization"] = "Bearer secret"
    assert access.refusal("/vosk", Headers(headers), websocket=True) is None


@pytest.mark.parametrize(
    ("options", "token", "warns"),
    [(["--host", "0.0.0.0"], "", True), (["--host", "0.0.0.0"], "secret", False), ([], "", False)],
)
def test_server_that_anyone_may_use_warns(
    locked: RunningServer,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    token: str,
    warns: bool,
) -> None:
    monkeypatch.setenv("ASR_STREAM_TOKEN", token)
    assert main([*options, "--port", str(locked.port)]) == 1
    error = capsys.readouterr().err
    assert f"port {locked.port}: Address already in use" in error  # so it ends before it loads the model
    assert ("anyone who reaches 0.0.0.0 may use this server: set ASR_STREAM_TOKEN" in caplog.text) == warns


def test_metrics_want_the_token_and_health_does_not(locked: RunningServer) -> None:
    assert health(locked)["status"] == "ok"
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{locked.url}/metrics")
    assert refused.value.code == 401


def test_a_token_need_not_be_utf_8() -> None:
    """It is compared byte by byte; a wrong token is rejected and does not cause a server error."""
    with serving(token=os.fsdecode(b"caf\xe9")) as server:
        for token, status in (("caf\xe9", 200), ("caf\xc3\xa9", 401), ("caf%E9", 200), ("cafe", 401), ("\xff", 401)):
            request = f"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
            with tcp(server.port, request.encode("latin-1")) as client:
                assert int(client.recv(12).decode()[9:12]) == status
    assert "Traceback" not in "\n".join(server.log)


@pytest.mark.parametrize(
    ("headers", "status", "reason", "sentence"),
    [
        ({"Authorization": "Bearer se/cret"}, 401, "token", "the token is missing or wrong"),
        ({"Origin": "https://secret.example"}, 403, "origin", "pages of this origin are not allowed"),
        ({"Host": "secret.example"}, 421, "host", "this server answers to localhost, 127.0.0.1, ::1 only"),
    ],
)
def test_who_is_refused_leaves_a_line_without_their_text(
    locked: RunningServer, headers: dict[str, str], status: int, reason: str, sentence: str
) -> None:
    def lines() -> list[str]:
        return [line for line in locked.log if f"refused: {sentence}" in line]

    before, usual = len(lines()), {"Host": f"localhost:{locked.port}", "Authorization": "Bearer correct horse"}
    assert knock(locked, usual | headers) == status
    wait_until(lambda: len(lines()) > before)
    assert lines()[-1].endswith(" (client 127.0.0.1)") and not any("secret" in line for line in locked.log)
    request = urllib.request.Request(f"{locked.url}/metrics", headers={"Authorization": "Bearer correct horse"})
    with urllib.request.urlopen(request) as metrics:
        assert f'asr_stream_refused_total{{reason="{reason}"}}' in metrics.read().decode()


@pytest.mark.parametrize(
    ("offered", "accepted"),
    [("vosk, {token}", "vosk"), ("{token}, vosk", "vosk"), ("{token}", None), ("other", "other")],
)
def test_a_token_is_not_sent_back(locked: RunningServer, offered: str, accepted: str | None) -> None:
    token = "openai-insecure-api-key.correct%20horse"
    head = f"\r\nSec-WebSocket-Protocol: {offered.format(token=token)}"
    head += "\r\nAuthorization: Bearer correct horse\r\n\r\n"
    answer = b""
    with tcp(locked.port, HANDSHAKE.replace(b"\r\n\r\n", head.encode())) as client:
        while b"\r\n\r\n" not in answer:
            answer += client.recv(1)
    found = re.findall(rb"(?i)sec-websocket-protocol: (.*)\r", answer)
    assert answer.startswith(b"HTTP/1.1 101") and found == ([accepted.encode()] if accepted else [])


def test_browsers_do_not_guess_types(locked: RunningServer) -> None:
    for path, status in (("/healthz", 200), ("/metrics", 401), ("/none", 404), ("/v1/none", 404)):
        request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        request += "Authorization: Bearer correct horse\r\n" * (status != 401) + "\r\n"
        with tcp(locked.port, request.encode()) as client:
            answer = rest(client)
        assert answer.startswith(f"HTTP/1.1 {status}".encode()) and b"x-content-type-options: nosniff" in answer


@pytest.mark.parametrize("host", ["203.0.113.1", ":::"])
def test_wrong_host_is_named(capsys: pytest.CaptureFixture[str], host: str) -> None:
    """The first is no address of this machine."""
    assert main(["--host", host, "--port", "0"]) == 1
    assert capsys.readouterr().err.endswith("; choose another with --host\n")
    assert main(["--port", "0", "--wyoming-port", "0", "--wyoming-host", host]) == 1
    assert capsys.readouterr().err.endswith("; choose another with --wyoming-host\n")


@pytest.mark.parametrize(
    ("given", "origin"),
    [
        ("HTTPS://Example.org/", "https://example.org"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("chrome-extension://abcdef", "chrome-extension://abcdef"),
        ("null", "null"),
    ],
)
def test_origins_are_as_browsers_send_them(given: str, origin: str) -> None:
    assert new_parser().parse_args(["--allow-origin", given]).allow_origin == [origin]


@pytest.mark.parametrize(
    ("option", "values", "complaint"),
    [
        ("--port", ["65536", "-1", "http"], "{} is not a port; choose 1 to 65535, or 0 for a free port"),
        ("--wyoming-port", ["65536"], "{} is not a port; choose 1 to 65535, or 0 for a free port"),
        ("--max-sessions", ["0"], "is {}; it must be a number of at least 1"),
        (
            "--allow-origin",
            ["example.org", "*", "https://example.org/app", "https://bücher.example", "https://"],
            "{} is not an origin; give scheme, host and any port",
        ),
        ("--wyoming-host", ["0.0.0.0"], "{} is for Wyoming, which is off: add --wyoming-port, such as 10300"),
        ("--wyoming-text", ["formatted"], "{} is for Wyoming, which is off: add --wyoming-port, such as 10300"),
        (
            "--proxy",
            ["proxy.example", "10.0.0.1/8", "*"],
            "{} is not an IP address or network; give one such as 127.0.0.1 or 10.0.0.0/8",
        ),
        ("--threads", ["-1", "²", "all"], "{} is not a number of threads; choose 0 for one per core, or more"),
    ],
)
def test_odd_options_are_one_line(
    capsys: pytest.CaptureFixture[str], option: str, values: list[str], complaint: str
) -> None:
    for value in values:
        with pytest.raises(SystemExit) as ended:
            main([option, value])
        error = capsys.readouterr().err
        assert ended.value.code == 2 and error.startswith("asr-stream serve: ") and error.count("\n") == 1
        assert option in error and complaint.format(value) in error and error.endswith("see asr-stream serve --help\n")
