"""Settings that every test runs under."""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch is imported: see deploy/cli.py
