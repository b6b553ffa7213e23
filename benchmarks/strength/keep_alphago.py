"""Keeps the networks of AlphaGo's line on 9x9 beside the code, so that its tables can be played again without hours.

    python -m benchmarks.strength.keep_alphago DIR --training "..." [--into benchmarks/networks/alphago_9x9]

DIR is that of benchmarks/alphago_9x9.sh.  Written is one small weights file for each stage that is there, and the
rollout policy.  NETWORKS=benchmarks/networks/alphago_9x9 benchmarks/alphago_9x9.sh table plays with them.
"""

import argparse
import shutil
from pathlib import Path

from benchmarks.lib import ROOT
from benchmarks.strength.ship_network import small_file

STAGES = {"imitation": "the policy from expert games", "reinforce": "the policy by policy gradient",
          "value": "the value network"}
ROLLOUT = "go.rollout"

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--training", required=True, help="what the files say of it")
    parser.add_argument("--into", type=Path, default=ROOT / "benchmarks" / "networks" / "alphago_9x9")
    given = parser.parse_args()
    given.into.mkdir(parents=True, exist_ok=True)
    for stage, name in STAGES.items():
        if (given.directory / stage).is_dir():
            path = given.into / f"{stage}.safetensors"
            path.write_bytes(small_file(given.directory / stage, {"training": f"{name}: {given.training}"}))
            print(f"{path}: {path.stat().st_size:,} bytes")
    shutil.copy(given.directory / ROLLOUT, given.into / ROLLOUT)
