"""`python -m shusaku` is `shusaku`."""

import sys

from shusaku.deploy.cli import main

sys.exit(main())
