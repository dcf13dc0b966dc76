"""The gate before anything is published: `make dist`, then `python scripts/release.py --check` in the same checkout.

- The version is stated alike in all its places, and CHANGELOG.md begins with it and a date.
- Nothing is uncommitted, and the tag of the version names the commit.
- Each wheel, the npm package and the C archive of dist/, in an empty environment and without the checkout, caption the
  bundled recording. The source distribution is there.
- `make dist` in another folder writes the same bytes.

--rehearsal leaves out the date and the tag, which come last. The exit status is 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SAMPLE, EXPECTED = ROOT / "asr" / "samples" / "sample.wav", ROOT / "asr" / "samples" / "sample.txt"
VERSIONS = {
    "asr/__init__.py": r'^__version__ = "(.*)"',
    "js/package.json": r'^  "version": "(.*)"',
    "js/package-lock.json": r'^  "version": "(.*)"',
    "bindings/rust/Cargo.toml": r'^version = "(.*)"',
    "bindings/rust/Cargo.lock": r'^version = "(.*)"',
    "bindings/go/README.md": r"@v(\S+)",
    "bindings/java/README.md": r"asr-stream-(\S+)\.jar",
    "bindings/java/pom.xml": r"^  <version>(.*)</version>",
    "CHANGELOG.md": r"^## (\S+),",
}


def run(*command: object, **options: object) -> str:
    """Returns the standard output of a command, which must succeed."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)  # type: ignore[call-overload]
    if done.returncode:
        raise RuntimeError(f"{shlex.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def versions(root: Path) -> dict[str, str]:
    """The version stated in each file."""
    found = {name: re.search(pattern, (root / name).read_text(), re.M) for name, pattern in VERSIONS.items()}
    return {name: match[1] if match else "none" for name, match in found.items()}


def wrong_versions(root: Path, *, rehearsal: bool) -> Iterator[str]:
    stated = versions(root)
    wanted = stated["asr/__init__.py"]
    for name, version in stated.items():
        if version != wanted:
            yield f"{name} has version {version}, and asr/__init__.py {wanted}"
    date = re.search(r"^## \S+, (.*)$", (root / "CHANGELOG.md").read_text(), re.M)
    if not rehearsal and not re.fullmatch(r"20\d\d-\d\d-\d\d", date[1] if date else ""):
        yield f"CHANGELOG.md has '{date[1] if date else ''}' after the version; it must be a date such as 2030-12-31"


def wrong_commit(root: Path, *, rehearsal: bool) -> Iterator[str]:
    changed = run("git", "-C", root, "status", "--porcelain")
    if changed:
        yield f"these files are not committed:\n{changed.rstrip()}"
    tag = "v" + versions(root)["asr/__init__.py"]
    if not rehearsal and tag not in run("git", "-C", root, "tag", "--points-at", "HEAD").split():
        yield f"the commit has no tag {tag}: git tag {tag}"


def environment(package: object, folder: Path, *, python: str = sys.executable) -> Path:
    """The programs of an environment with only the package and its dependencies, installed without a compiler."""
    run(python, "-m", "venv", "--without-pip", folder)
    programs = folder / "bin"
    pip = (sys.executable, "-m", "pip", "--python", programs / "python")
    run(*pip, "install", "--quiet", package, env=without_compiler(programs))
    return programs


def without_compiler(programs: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CMAKE_"))}
    return kept | {"PATH": str(programs), "CC": "/nowhere/cc", "CXX": "/nowhere/c++"}


def caption_wheel(wheel: Path, folder: Path) -> str:
    minor = re.search(r"-cp3(\d+)-", wheel.name)
    python = shutil.which(f"python3.{minor[1]}") if minor else None
    if python is None:
        raise RuntimeError(f"no Python on the PATH can try {wheel.name}")
    return caption_in(environment(wheel, folder / "environment", python=python), folder)


def caption_in(programs: Path, folder: Path) -> str:
    return run(programs / "asr-stream", "--sample", "--text", "plain", cwd=folder, env=without_compiler(programs))


def caption_npm(package: Path, folder: Path) -> str:
    npm = ("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefer-offline")
    run(*npm, package, cwd=folder)
    shutil.copy(ROOT / "js" / "examples" / "transcribe.mjs", folder)
    models = ROOT / "asr" / "models"
    options = ("--model", models / "tiny.int8.onnx", "--lm", models / "english.lm", "--text", "plain")
    return run("node", "transcribe.mjs", *options, SAMPLE, cwd=folder)


def caption_c(archive: Path, folder: Path) -> str:
    """Captions with the example of the archive, its models and PyPI's ONNX Runtime."""
    run("tar", "xf", archive, "-C", folder)
    (share,) = folder.glob("*/share/asr_stream")
    (pkgconfig,) = folder.glob("*/lib*/**/pkgconfig")
    found = run("pkg-config", "--cflags", "--libs", "asr_stream", env=os.environ | {"PKG_CONFIG_PATH": str(pkgconfig)})
    run("cc", share / "examples" / "transcribe.c", "-o", folder / "transcribe", *shlex.split(found))
    programs = environment("onnxruntime", folder / "environment")
    packages = run(programs / "python", "-c", "import sysconfig; print(sysconfig.get_path('platlib'))").strip()
    library = next(Path(packages).glob("onnxruntime/capi/libonnxruntime.so.*"))
    runtime = os.environ | {"ASR_STREAM_ONNXRUNTIME": str(library)}
    files = [share / name for name in ("tiny.int8.onnx", SAMPLE.name, "english.lm", "english.punctuation.onnx")]
    return run(folder / "transcribe", *files, env=runtime)


KINDS: dict[str, Callable[[Path, Path], str] | None] = {
    "asr_stream-{}.tar.gz": None,
    "asr_stream-{}-*.whl": caption_wheel,
    "asr-stream-{}.tgz": caption_npm,
    "libasr_stream-{}-*.tar.gz": caption_c,
}


def wrong_files(dist: Path, version: str) -> Iterator[str]:
    expected = EXPECTED.read_text().strip()
    for kind, caption in KINDS.items():
        files = sorted(dist.glob(kind.format(version)))
        if not files:
            yield f"{dist} has no {kind.format(version)}: make dist"
        for path in files if caption else ():
            with tempfile.TemporaryDirectory() as folder:
                try:
                    text = caption(path, Path(folder)) if caption else ""
                except RuntimeError as error:
                    yield f"{path.name}: {error}"
                    continue
            if expected not in " ".join(re.findall("[A-Z']+", text.upper())):
                yield f"{path.name} captions {SAMPLE.name} as {text!r}"


def make_again(folder: Path, venv: Path, *arguments: str) -> None:
    """Runs `make` in a copy of the checkout's files, with the tools of `venv`, as if it were the same commit."""
    for name in run("git", "-C", ROOT, "ls-files").splitlines():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    epoch = run("git", "-C", ROOT, "log", "-1", "--format=%ct").strip()
    # With paths relative to the folder, those of the tools, too, ccache recognizes the same sources.
    (folder / ".venv").symlink_to(venv)
    run("make", "-C", folder, *arguments, env=os.environ | {"SOURCE_DATE_EPOCH": epoch, "CCACHE_BASEDIR": str(folder)})


def other_bytes(one: Path, other: Path) -> Iterator[str]:
    names = {path.name for folder in (one, other) for path in folder.iterdir()}
    for name in sorted(names):
        files = [folder / name for folder in (one, other)]
        if not all(path.exists() for path in files):
            yield f"one of two builds has no {name}"
        elif files[0].read_bytes() != files[1].read_bytes():
            yield f"two builds of {name} differ: {files[0]} and {files[1]}"


def check(dist: Path, *, rehearsal: bool) -> Iterator[str]:
    yield from wrong_versions(ROOT, rehearsal=rehearsal)
    yield from wrong_commit(ROOT, rehearsal=rehearsal)
    yield from wrong_files(dist, versions(ROOT)["asr/__init__.py"])
    again = Path(tempfile.mkdtemp(prefix="asr-stream-"))
    make_again(again, ROOT / ".venv", "dist", "DIST=dist")
    wrong = list(other_bytes(dist, again / "dist"))
    if not wrong:
        shutil.rmtree(again)
    yield from wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", required=True, help="check; there is nothing else to do")
    parser.add_argument("--rehearsal", action="store_true", help="without the date of the changelog and the tag")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", metavar="FOLDER", help="what `make dist` wrote")
    arguments = parser.parse_args()
    num_wrong = 0
    for problem in check(arguments.dist, rehearsal=arguments.rehearsal):
        num_wrong += 1
        print(f"wrong: {problem}", flush=True)
    print(f"{num_wrong} problems" if num_wrong else "Ready to publish.")
    sys.exit(bool(num_wrong))


if __name__ == "__main__":
    main()
