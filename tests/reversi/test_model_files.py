"""Model files that earlier versions of the code have written can still be read.

``model_files/hex8_3p-4ce8f0d.safetensors`` was made by a train job of commit 4ce8f0d: generation 0, seed 7,
channels 4, blocks 1.
"""

import hashlib
from pathlib import Path

from ringrift.workload.api import JobSpec
from ringrift.workload.scratch import Scratch
from ringrift_reversi import net
from ringrift_reversi.workload import Reversi

VARIANT = "hex8_3p"
FILE = Path(__file__).parent / "model_files" / "hex8_3p-4ce8f0d.safetensors"
BLOB = "937c3b33a1fee9026865c291bbaf45302be07f4ef7b6d54cf438d5280f3ad6bd"


def test_the_file_is_the_one_that_was_written() -> None:
    """Otherwise the other tests prove nothing."""
    assert hashlib.sha256(FILE.read_bytes()).hexdigest() == BLOB


def test_a_model_file_loads_with_its_metadata() -> None:
    """Architecture, generation and the version of the workload that made it."""
    model, meta = net.load_with_meta(FILE.read_bytes(), VARIANT)

    assert (model.variant, model.channels, len(model.blocks)) == (VARIANT, 4, 1)
    assert (meta["generation"], meta["workload"]) == ("0", "reversi 1")


def test_saving_a_model_again_gives_the_same_bytes() -> None:
    """The format has not changed."""
    model, meta = net.load_with_meta(FILE.read_bytes(), VARIANT)

    assert net.save(model, meta) == FILE.read_bytes()


def test_the_verify_job_accepts_a_model_file(tmp_path: Path) -> None:
    """The network evaluates positions as it did when the file was made."""
    ctx = Scratch(tmp_path)
    blob = ctx.publish("model", FILE.read_bytes(), {}).blob

    Reversi().run(JobSpec("verify", "verify", VARIANT, 0, inputs={"model": (blob,)}), ctx)


def test_the_import_job_takes_a_model_file_unchanged(tmp_path: Path) -> None:
    """The imported model is the very file."""
    ctx = Scratch(tmp_path)
    blob = ctx.publish("model", FILE.read_bytes(), {}).blob

    result = Reversi().run(JobSpec("import", "import", VARIANT, 0, inputs={"file": (blob,)}), ctx)

    assert [output.blob for output in result.outputs] == [BLOB]


def test_a_model_file_is_a_parent_for_training(tmp_path: Path) -> None:
    """Games are played with it, and the model trained from them is of the next generation."""
    ctx = Scratch(tmp_path)
    parent = ctx.publish("model", FILE.read_bytes(), {}).blob

    def run(stage: str, params: dict[str, int], **inputs: str) -> str:
        job = JobSpec(stage, stage, VARIANT, 1, {role: (blob,) for role, blob in inputs.items()}, params)
        return Reversi().run(job, ctx).outputs[0].blob

    games = run("play", {"games": 2, "sims": 2}, model=parent)
    samples = run("export", {}, batches=games)
    child = run("train", {"steps": 1}, samples=samples, parent=parent)

    _, meta = net.load_with_meta(ctx.open_input(child).read_bytes(), VARIANT)
    assert meta["generation"] == "1"
