"""Print the measured params of a workload as JSON, in a process of its own: it imports what no other process needs."""

import json
import sys
from collections.abc import Sequence

from ringrift.workload.api import HasMeasuredParams
from ringrift.workload.registry import Registry


def main(words: Sequence[str]) -> int:
    """Print the params of the installed workload *words[0]*, ``{}`` if it measures none.  Raises UnknownName."""
    workload = Registry.load({}).get(words[0])
    params = workload.measured_params() if isinstance(workload, HasMeasuredParams) else {}
    sys.stdout.write(json.dumps(dict(params)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
