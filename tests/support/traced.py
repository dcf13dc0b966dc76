"""What a command writes and whom it calls: by strace, on Linux, with an empty home folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from pathlib import Path

DOC = Path(__file__).parents[2] / "docs" / "concepts" / "privacy.md"
CALLS = "?open,openat,?openat2,?creat,connect,sendto,sendmsg,sendmmsg"
"""System calls that write files or send something; `?`: not on every processor."""
WRITTEN = re.compile(r"^(?:creat\(|open.*\bO_(?:WRONLY|RDWR|CREAT)\b).* = \d+<(/.*)>$")
ADDRESS = re.compile(r'sin6?_port=htons\((\d+)\).*?(?:inet_addr\(|inet_pton\(AF_INET6, )"([^"]+)"')
RESOLVER = re.compile(r'sun_path="([^"]*(?:resolve|avahi)[^"]*)"')
DNS = 53


def trespasses(folder: Path, *command: str | Path, env: Mapping[str, str] | None = None) -> list[str]:
    """Runs `command`, which must succeed, in `folder / "work"`. Returns what it wrote elsewhere, unless
    docs/concepts/privacy.md names it, and the resolvers of names and the addresses of other machines that it called.

    env: added to an environment without settings of the user.
    """
    home, temporary, work, traces = places = [folder / name for name in ("home", "tmp", "work", "traces")]
    for place in places:
        place.mkdir(parents=True)
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    alone = {"PATH": path, "HOME": str(home), "TMPDIR": str(temporary), "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"}
    alone["PYTHONDONTWRITEBYTECODE"] = "1"
    strace = ("strace", "-ff", "-qq", "-y", "--seccomp-bpf", "-o", f"{traces}/thread", "-e", f"trace={CALLS}")
    done = subprocess.run(
        [*strace, *command], cwd=work, env=alone | dict(env or {}), capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    lines = [line for trace in traces.iterdir() for line in trace.read_text(errors="replace").splitlines()]
    assert lines, "strace saw nothing"
    named = [home / name for name in re.findall(r"`~/([^`]+)`", DOC.read_text(encoding="utf-8"))]
    allowed = (work, temporary, Path("/dev"), Path("/proc"), *named)
    files = {Path(found[1]) for found in map(WRITTEN.search, lines) if found}
    files |= {file for file in home.rglob("*") if not any(name.is_relative_to(file) for name in named)}
    outside = [str(file) for file in files if not any(file.is_relative_to(place) for place in allowed)]
    return [*sorted(outside), *sorted(set(_called(lines)))]


def _called(lines: list[str]) -> Iterator[str]:
    for line in lines:
        yield from RESOLVER.findall(line)
        for port, address in ADDRESS.findall(line):
            if not ip_address(address).is_loopback or int(port) == DNS:
                yield f"{address} port {port}"
