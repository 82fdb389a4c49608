"""`python -m rewardrate` is the command `rewardrate`."""

import sys

from rewardrate.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
