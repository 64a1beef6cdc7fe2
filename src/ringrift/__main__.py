"""Run the command line: ``python -m ringrift`` is ``ringrift``."""

from ringrift.cli.main import main

if __name__ == "__main__":
    main()
