"""Runs a node by the documented variables: see --help."""

import sys

from ringrift_compat.cluster.orchestrator import main

if __name__ == "__main__":
    main(sys.argv[1:])
