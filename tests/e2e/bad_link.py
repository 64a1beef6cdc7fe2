"""A link that misbehaves: runs the rest of its command line, and changes what that prints on its way.

    python bad_link.py FAULT NUMBER ssh …

FAULT is ``cut`` (the connection dies after NUMBER bytes), ``truncate`` (the rest is dropped, and all looks well),
``flip`` (byte NUMBER has another value), ``text`` (every line end becomes two bytes, as a terminal does it) or ``hold``
(after NUMBER bytes nothing more comes).  Bytes are counted behind the first line of the answer, and from the beginning
with ``raw-`` before the fault.
"""

import os
import signal
import subprocess
import sys


def main() -> int:
    fault, number, argv = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        line = b"" if fault.startswith("raw-") else process.stdout.readline()
        while line and not line.startswith(b"ringrift "):
            _write(line)
            line = process.stdout.readline()
        _write(line)
        fault = fault.removeprefix("raw-")
        at = 0
        while chunk := os.read(process.stdout.fileno(), 65536):
            if fault == "flip" and at <= number < at + len(chunk):
                place = number - at
                chunk = chunk[:place] + bytes([chunk[place] ^ 1]) + chunk[place + 1 :]
            elif fault == "text":
                chunk = chunk.replace(b"\n", b"\r\n")
            elif fault in ("cut", "truncate", "hold") and at + len(chunk) > number:
                _write(chunk[: max(number - at, 0)])
                if fault == "hold":
                    signal.pause()
                process.kill()
                return 255 if fault == "cut" else 0
            _write(chunk)
            at += len(chunk)
    return process.returncode


def _write(data: bytes) -> None:
    os.set_blocking(1, True)  # rsync shares it, and may have set it otherwise
    while data:
        data = data[os.write(1, data) :]


if __name__ == "__main__":
    sys.exit(main())
