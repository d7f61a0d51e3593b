"""`python -m cocal` is the command line."""

import sys

from cocal.cli import main

sys.exit(main())
