"""Checks of the results that workers report; each raises JobFailed, so that nothing unchecked becomes an event."""

from ringrift.kernel.errors import JobFailed
from ringrift.kernel.variant import parse
from ringrift.workload.api import SETTINGS_LENGTH_MAX, Artifact, JobResult


def only_artifact(result: JobResult, kind: str) -> Artifact:
    """The one artifact of *kind*."""
    artifacts = [output for output in result.outputs if output.kind == kind]
    if len(artifacts) != 1:
        raise JobFailed(f"the workload made {len(artifacts)} artifacts of kind {kind}, not 1")
    return artifacts[0]


def count_in(artifact: Artifact, key: str) -> int:
    """The number that the workload reports under *key*: whole and above 0."""
    number = artifact.meta.get(key)
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        reason = f"the workload reports {key} = {number!r}: a whole number above 0 is needed"
        raise JobFailed(reason, blob=artifact.blob)
    return number


def check_blocks(result: JobResult, variant: str, first: int, count: int) -> None:
    """Blocks are evidence: exactly those that the job asks for, each score between 0 and 1."""
    if len(result.settings) > SETTINGS_LENGTH_MAX:
        raise JobFailed(f"settings of a match: at most {SETTINGS_LENGTH_MAX} characters, not {len(result.settings)}")
    numbers = [block.number for block in result.blocks]
    if numbers != list(range(first, first + count)):
        raise JobFailed(f"blocks {first} … {first + count - 1} are needed, not {numbers[:8]}")
    seats = parse(variant).players
    for block in result.blocks:
        for name, values in (("scores", block.scores), ("ranks", block.ranks)):
            if name == "ranks" and not values:
                continue
            if len(values) != seats or not all(0.0 <= value <= 1.0 for value in values):
                raise JobFailed(f"block {block.number} needs {seats} {name} from 0 to 1, not {list(values)[:8]}")
