"""The `asr-stream` command: captions, subtitles and output files."""


def main() -> int:
    """The command; also handles Ctrl-C while its modules are imported. Returns its exit status."""
    try:
        from asr.streaming.terminal.cli import main

        return main()
    except KeyboardInterrupt:
        return 130
