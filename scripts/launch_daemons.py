"""Launches the daemons of a node on this machine, or shows those that run: see --help."""

import sys

from ringrift_compat.daemons.launch import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
