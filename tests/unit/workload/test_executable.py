"""Executables as workloads: real programs, their output, and their limits."""

import json
import os
import signal
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

from ringrift.kernel.errors import InvalidId, SettingsError
from ringrift.workload import fake
from ringrift.workload.api import Block, JobSpec, Refused, Scalar, VariantSpec, Workload
from ringrift.workload.executable import LINE_BYTES_MAX, OUTPUT_BYTES_MAX, Executable
from ringrift.workload.fake import Fake
from ringrift.workload.scratch import Scratch

OFFER = {
    "version": "7",
    "variants": [{"name": "hex8_2p", "players": 2, "actions": 61, "cpu_seconds_per_game": 0.5}],
}

OPENING = """
import json, os, signal, subprocess, sys, time
from pathlib import Path
if sys.argv[1] == "variants":
    print(OFFER)
    sys.exit()
options = dict(zip(sys.argv[2::2], sys.argv[3::2]))
job = json.loads(Path(options["--job"]).read_text())
inputs, out = Path(options["--in"]), Path(options["--out"])
def report(**progress):
    print(json.dumps(progress), flush=True)
def end(code=0, **result):
    (out / "result.json").write_text(json.dumps(result))
    sys.exit(code)
"""


def program(folder: Path, offer: object = OFFER) -> tuple[str, ...]:
    """Return the argv of a program that offers *offer*, and follows the params of a job."""
    script = folder / "plugin.py"
    script.write_text(OPENING.replace("OFFER", repr(json.dumps(offer))) + 'exec(job["params"].pop("body"))\n')
    return (sys.executable, "-I", "-S", str(script))


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Executable:
    return Executable("mine", program(tmp_path_factory.mktemp("program")))


def job(body: str, inputs: Mapping[str, tuple[str, ...]] | None = None, **params: Scalar) -> JobSpec:
    params["body"] = textwrap.dedent(body)
    return JobSpec("j1", "play", "hex8_2p", 5, inputs=inputs or {}, params=params)


def test_the_offer_is_the_output_of_the_program(mine: Executable) -> None:
    """Version and variants come from the program, and the class keeps the plug-in interface."""
    assert isinstance(mine, Workload)
    assert (mine.name, mine.version) == ("mine", "7")
    assert mine.variants() == (VariantSpec("hex8_2p", 2, 61, 0.5),)


def test_a_job_goes_in_and_its_outputs_come_out(mine: Executable, tmp_path: Path) -> None:
    """The program gets the job and its inputs as files; its listed outputs are published with their meta."""
    body = """
    data = (inputs / job["inputs"]["model"][0]).read_bytes()
    (out / "a.bin").write_bytes(data + json.dumps(job, sort_keys=True).encode())
    end(outputs=[{"kind": "games", "file": "a.bin", "meta": {"games": 3, "who": "me"}}], metrics={"rate": 2.5},
        blocks=[{"number": 4, "scores": [1, 0.5]}])
    """
    ctx = Scratch(tmp_path / "blobs")
    model = ctx.publish("model", b"weights", {}).blob

    result = mine.run(job(body, {"model": (model,)}, games=3), ctx)

    spec = {"attempt": 1, "inputs": {"model": [model]}, "job": "j1", "params": {"games": 3}}
    spec |= {"seed": 5, "stage": "play", "variant": "hex8_2p"}
    assert ctx.open_input(result.outputs[0].blob).read_bytes() == b"weights" + json.dumps(spec).encode()
    assert (result.outputs[0].kind, result.outputs[0].meta) == ("games", {"games": 3, "who": "me"})
    assert (result.metrics, result.blocks, result.partial) == ({"rate": 2.5}, (Block(4, (1.0, 0.5)),), False)


def test_progress_lines_become_heartbeats(mine: Executable, tmp_path: Path) -> None:
    """Numbers travel as metrics; lines that are no progress, too long or out of range are passed over."""
    body = f"""
    for line in ('gibberish', '{{"done": 2}}', '{{"done": true}}', '{{"done": NaN}}', '{{"rate": 1}}', '[' * 9999):
        print(line)
    print('{{"done": 0.9, "pad": "' + 'x' * {LINE_BYTES_MAX} + '"}}', flush=True)
    report(done=0.5, games=3, self=1, name="text", huge=10**400)
    end()
    """
    ctx = Scratch(tmp_path / "blobs")

    mine.run(job(body), ctx)

    assert [(beat.done, beat.metrics) for beat in ctx.beats] == [(0.5, {"games": 3.0})]


def test_a_stop_request_reaches_the_program(mine: Executable, tmp_path: Path) -> None:
    """SIGTERM comes once; exit code 75 with whole outputs is a partial result."""
    body = """
    def stop(*_):
        (out / "a.bin").write_bytes(b"half")
        end(75, outputs=[{"kind": "games", "file": "a.bin"}])
    signal.signal(signal.SIGTERM, stop)
    report(done=0.5)
    time.sleep(60)
    """
    ctx = Scratch(tmp_path / "blobs").stop_after(1)

    result = mine.run(job(body), ctx)

    assert result.partial
    assert ctx.open_input(result.outputs[0].blob).read_bytes() == b"half"


class LeapingClock:
    """A clock that a test can set to advance an hour at every read."""

    def __init__(self) -> None:
        self.seconds, self.step = 0.0, 0.0

    def now(self) -> float:
        return self.tick()

    def tick(self) -> float:
        self.seconds += self.step
        return self.seconds


def test_a_program_that_will_not_stop_is_killed(tmp_path: Path) -> None:
    """A program that ignores SIGTERM gets its grace period and is then killed; the job has failed."""
    body = """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    report(done=0.5)
    time.sleep(60)
    """
    clock = LeapingClock()
    made = Executable("mine", program(tmp_path), clock)
    clock.step = 3600.0

    with pytest.raises(RuntimeError, match=f"ended with -{signal.SIGKILL:d}"):
        made.run(job(body), Scratch(tmp_path / "blobs").stop_after(1))


def test_exit_code_65_is_a_refusal(mine: Executable, tmp_path: Path) -> None:
    """The last line on stderr is the reason; an input that it names is the culprit."""
    body = """
    print("looking", file=sys.stderr)
    print("batch", job["inputs"]["batches"][1], "is cut off", file=sys.stderr)
    sys.exit(65)
    """
    ctx = Scratch(tmp_path / "blobs")
    batches = tuple(ctx.publish("games", data, {}).blob for data in (b"one", b"two"))

    with pytest.raises(Refused) as caught:
        mine.run(job(body, {"batches": batches}), ctx)

    assert caught.value.reason == f"batch {batches[1]} is cut off"
    assert caught.value.blob == batches[1]


def test_any_other_end_is_a_failure_with_the_tail_of_stderr(mine: Executable, tmp_path: Path) -> None:
    """Only the end of a long output is kept, up to the limit."""
    body = """
    sys.stderr.write("begin" + "x" * 100_000 + "the end")
    sys.exit(3)
    """

    with pytest.raises(RuntimeError, match=r"ended with 3: x.*the end$") as caught:
        mine.run(job(body), Scratch(tmp_path))

    assert len(str(caught.value)) < 4096 + 100


@pytest.mark.parametrize(
    "name",
    ["../plugin.py", "/etc/passwd", "sub/a.bin", "..", ".", "", "link", "folder", "pipe", "absent", "vast", "n" * 999],
)
def test_an_output_must_be_a_plain_file_in_its_folder(mine: Executable, tmp_path: Path, name: str) -> None:
    """No way out of OUT by name or link, nothing that is no file, nothing over the limit."""
    body = f"""
    (out / "sub").mkdir()
    (out / "sub" / "a.bin").write_bytes(b"x")
    (out / "folder").mkdir()
    (out / "link").symlink_to("/etc/passwd")
    os.mkfifo(out / "pipe")
    with open(out / "vast", "wb") as file:
        file.truncate({OUTPUT_BYTES_MAX + 1})
    end(outputs=[{{"kind": "games", "file": {name!r}}}])
    """

    with pytest.raises(RuntimeError, match="workload 'mine'"):
        mine.run(job(body), Scratch(tmp_path / "blobs"))

    assert not (tmp_path / "blobs").exists()


@pytest.mark.parametrize(
    "result",
    [
        None,
        "{",
        "[]",
        '{"outputs": [{"kind": "gossip", "file": "a"}]}',
        '{"blocks": [{"number": 0, "scores": [1.5]}]}',
        '{"blocks": [{"number": -1, "scores": [1.0]}]}',
        '{"metrics": {"loss": NaN}}',
        '{"outputs": [{"kind": "games", "file": "a", "meta": {"deep": {}}}]}',
    ],
)
def test_a_bad_result_is_a_failure(mine: Executable, tmp_path: Path, result: str | None) -> None:
    """Exit code 0 without a result, or with one that breaks the contract, is no success."""
    body = f"""
    if {result!r} is not None:
        (out / "result.json").write_text({result!r})
    """

    with pytest.raises(RuntimeError, match=r"result\.json"):
        mine.run(job(body), Scratch(tmp_path / "blobs"))


@pytest.mark.parametrize(
    "offer",
    [
        "gibberish",
        {},
        {"version": "", "variants": []},
        {"version": "1", "variants": [{"name": "hex8_2p", "players": 0}]},
        {"version": "1", "variants": [{"name": "x_2p", "players": 2, "actions": 0, "cpu_seconds_per_game": 0.5}]},
    ],
)
def test_a_program_with_an_invalid_offer_is_refused(tmp_path: Path, offer: object) -> None:
    """Its offer must be complete and in range."""
    with pytest.raises(RuntimeError, match="workload 'mine': the command \"variants\" printed bad JSON"):
        Executable("mine", program(tmp_path, offer))


def test_a_program_that_does_not_run_is_named(tmp_path: Path) -> None:
    """A missing program and one that fails at once give an error with the workload's name."""
    with pytest.raises(RuntimeError, match="workload 'gone' cannot be started"):
        Executable("gone", [str(tmp_path / "gone")])
    with pytest.raises(RuntimeError, match=r'workload .bad.: the command "variants" ended with 4: oh'):
        Executable("bad", [sys.executable, "-c", "import sys; sys.stderr.write('oh'); sys.exit(4)"])


def test_a_flood_of_variants_is_cut_off() -> None:
    """A program that never ends its answer is stopped at the limit."""
    with pytest.raises(RuntimeError, match="more than"):
        Executable("flood", [sys.executable, "-I", "-S", "-c", "while True: print('x' * 65536)"])


@pytest.mark.parametrize("command", ["run me", (), ("",), ("a", 1)])
def test_a_command_is_a_list_of_arguments(command: tuple[str, ...]) -> None:
    """One string would need a shell, and there is none."""
    with pytest.raises(SettingsError, match=r"workloads\.mine\.command"):
        Executable("mine", command)


def test_an_input_that_is_no_blob_id_never_becomes_a_file_name(mine: Executable, tmp_path: Path) -> None:
    """A path in place of an id is refused before the program starts."""
    with pytest.raises(InvalidId):
        mine.run(job("end()", {"model": ("../../x",)}), Scratch(tmp_path))


class JobRevoked(Exception):
    """The node has taken the job away."""


class Revoking(Scratch):
    """Takes the job away at its first heartbeat."""

    def heartbeat(self, done: float, **metrics: float) -> None:
        super().heartbeat(done, **metrics)
        raise JobRevoked


def test_no_program_outlives_its_job(mine: Executable, tmp_path: Path) -> None:
    """When the context raises, the program is killed before the error travels on."""
    body = """
    report(done=0.1, pid=os.getpid())
    time.sleep(60)
    """
    ctx = Revoking(tmp_path / "blobs")

    with pytest.raises(JobRevoked):
        mine.run(job(body), ctx)

    with pytest.raises(ProcessLookupError):
        os.kill(int(ctx.beats[0].metrics["pid"]), 0)


def test_a_grandchild_that_holds_the_pipes_delays_nothing(mine: Executable, tmp_path: Path) -> None:
    """The program's own end counts, even if what it started keeps its stdout open."""
    body = """
    child = subprocess.Popen(["sleep", "60"])
    end(metrics={"pid": child.pid})
    """

    result = mine.run(job(body), Scratch(tmp_path / "blobs"))
    os.kill(int(result.metrics["pid"]), signal.SIGKILL)

    assert not result.partial


PLUGIN = """
import json, signal, sys
sys.path.insert(0, SOURCE)
from dataclasses import asdict
from pathlib import Path
from ringrift.workload.api import Artifact, JobSpec, Refused
from ringrift.workload.fake import Fake

class Context:
    def __init__(self, inputs, out):
        self.inputs, self.out, self.stop = inputs, out, False
    def open_input(self, blob): return self.inputs / blob
    def publish(self, kind, data, meta):
        (self.out / kind).write_bytes(data)
        return Artifact(kind, kind, len(data), meta)
    def heartbeat(self, done, **metrics): print(json.dumps({"done": done, **metrics}), flush=True)
    def should_stop(self): return self.stop
    def checkpoint(self, data): pass
    def resume(self): return None

if sys.argv[1] == "variants":
    print(json.dumps({"version": "1", "variants": [asdict(spec) for spec in Fake().variants()]}))
    sys.exit()
options = dict(zip(sys.argv[2::2], sys.argv[3::2]))
ctx = Context(Path(options["--in"]), Path(options["--out"]))
signal.signal(signal.SIGTERM, lambda *_: setattr(ctx, "stop", True))
try:
    result = Fake().run(JobSpec(**json.loads(Path(options["--job"]).read_text())), ctx)
except Refused as refused:
    sys.exit(sys.stderr.write(f"{refused.reason} ({refused.blob})") and 65)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
outputs = [{"kind": output.kind, "file": output.blob, "meta": output.meta} for output in result.outputs]
blocks = [asdict(block) for block in result.blocks]
report = {"outputs": outputs, "metrics": result.metrics, "blocks": blocks, "settings": result.settings}
(ctx.out / "result.json").write_text(json.dumps(report))
sys.exit(75 if result.partial else 0)
"""


def test_the_fake_as_a_program_equals_the_fake(tmp_path: Path) -> None:
    """Every stage gives the same result through a program as in this process, and a refusal stays one."""
    script = tmp_path / "plugin.py"
    script.write_text(PLUGIN.replace("SOURCE", repr(str(Path(fake.__file__).parents[2]))))
    program, ctx = (
        Executable("fake", [sys.executable, "-I", "-S", str(script)]),
        Scratch(tmp_path / "blobs"),
    )
    inputs: dict[str, list[str]] = {}

    for stage, role in (("train", "parent"), ("play", "batches"), ("export", "samples"), ("train", "candidate")):
        spec = JobSpec("j1", stage, "hex8_2p", 5, inputs=dict(inputs), params={"games": 4})
        made = program.run(spec, ctx)
        inputs[role] = [made.outputs[0].blob]
        inputs["model"] = inputs["champion"] = inputs["parent"]

        assert made == Fake().run(spec, ctx)

    match = JobSpec("j1", "match", "hex8_2p", 5, inputs=inputs, params={"first": 3, "count": 5})
    with pytest.raises(Refused) as caught:
        program.run(JobSpec("j1", "verify", "hex8_3p", 5, inputs={"model": inputs["candidate"]}), ctx)

    assert program.run(match, ctx) == Fake().run(match, ctx)
    assert program.variants() == Fake().variants()
    assert caught.value.blob == inputs["candidate"][0]


def test_a_program_that_writes_to_its_input_damages_no_blob(mine: Executable, tmp_path: Path) -> None:
    """Inputs are copies that are not writable; a program that makes them writable spoils its copy, not the blob."""
    body = """
    path = inputs / job["inputs"]["model"][0]
    mode = path.stat().st_mode & 0o777
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.write(b"spoilt")
    path.unlink()
    end(metrics={"mode": mode})
    """
    ctx = Scratch(tmp_path / "blobs")
    model = ctx.publish("model", b"weights", {}).blob

    result = mine.run(job(body, {"model": (model,)}), ctx)

    assert result.metrics == {"mode": 0o400}
    assert ctx.open_input(model).read_bytes() == b"weights"
    assert (tmp_path / "blobs" / model).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "blobs").stat().st_mode & 0o777 == 0o700
