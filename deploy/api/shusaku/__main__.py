"""`python -m shusaku` is `shusaku`."""

import sys

from shusaku.deploy.cli.main import main

sys.exit(main())
