"""An S3 server of a test: moto in a process of its own, with one empty bucket for each test."""

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import pytest

_numbers = count()
_PROGRAM = """
import sys, warnings
warnings.simplefilter("ignore")
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class S3Server:
    """A server, the variables by which programs reach it, and the address of a place in an empty bucket."""

    url: str
    variables: dict[str, str]
    address: str


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    """The URL of a server that runs until the tests end."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([sys.executable, "-c", _PROGRAM], text=True, **pipes)
    assert process.stdout is not None
    yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    process.communicate(timeout=10)


@pytest.fixture
def s3(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server, with a new bucket, in the environment of this process."""
    bucket = f"backups-{next(_numbers)}"
    with urllib.request.urlopen(urllib.request.Request(f"{s3_url}/{bucket}", method="PUT"), timeout=10):
        pass
    variables = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "canary-of-a-secret", "AWS_REGION": "us-east-1"}
    variables["AWS_ENDPOINT_URL"] = s3_url
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return S3Server(s3_url, variables, f"s3://{bucket}/some/prefix")
