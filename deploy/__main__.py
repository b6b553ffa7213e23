"""`python -m deploy` is `shusaku`."""

import sys

from deploy.cli import main

sys.exit(main())
