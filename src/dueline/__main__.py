"""`python -m dueline` is the command `dueline`."""

import sys

from dueline.cli import main

if __name__ == "__main__":
    sys.exit(main())
