"""The ten players of AlphaGo's comparison on 9x9, for `round_robin`: prints them as JSON.

    python -m benchmarks.strength.alphago_players DIR [--seconds 0.1] [NAME ...] > players.json

DIR is that of benchmarks/alphago_9x9.sh, or benchmarks/networks/alphago_9x9, where the networks of its runs are kept.
The letters are those of Extended Data Table 7 (Silver et al. 2016): r rollouts, v the value network, p the policy
network; without p the rollout policy is the prior, and p alone does not search.  A search takes --seconds of one
thread's processor time.  Beside them GNU Go 3.8 at two levels, and the network of our own go_9x9 that ships.

Ours, for rvp and rv: lambda = 0.8, and a leaf has 40 rollouts before the value network is asked about it.  The paper
has 0.5 and asks at once; on a CPU one answer costs as much as ten rollouts, and on 9x9 rollouts judge well.
"""

import argparse
import json
from pathlib import Path

PAPER = {"rvp": 2890, "vp": 2177, "rp": 2416, "rv": 2077, "v": 1655, "r": 1457, "p": 1517}  # Extended Data Table 7
ROLLOUT_SHARES = {"rvp": 0.8, "vp": 0.0, "rp": 1.0, "rv": 0.8, "v": 0.0, "r": 1.0}
VALUE_AFTER = 40  # of the players with rollouts and a value network
GNUGO = "gnugo --mode gtp --chinese-rules --capture-all-dead --positional-superko --level"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seconds", type=float, default=0.1, help="of processor time a move")
    parser.add_argument("names", nargs="*", help="only these players")
    options = parser.parse_intermixed_args()
    players = all_players(options.directory, options.seconds)
    print(json.dumps({name: players[name] for name in options.names or players}, indent=1))


def all_players(directory: Path, seconds: float) -> dict[str, list[str]]:
    """Name -> overrides, `{side}` in the place of first and second."""
    players = {name: variant(name, directory, seconds) for name in ROLLOUT_SHARES}
    players["p"] = [f"{{side}}.checkpoint={network(directory, 'imitation')}", "{side}.search=policy_only"]
    for level in (1, 10):
        players[f"GNU Go {level}"] = ["{side}.engine=gtp", f'{{side}}.command="{GNUGO} {level}"']
    players["go_9x9"] = ["{side}.checkpoint=benchmarks/networks/go_9x9_first/weights.safetensors", "{side}.search=puct",
                         f"{{side}}.seconds={seconds:g}"]
    return players


def network(directory: Path, stage: str) -> Path:
    """The run of this stage, or the file that was kept of it."""
    run = directory / stage
    return run if run.is_dir() else run.with_suffix(".safetensors")


def variant(letters: str, directory: Path, seconds: float) -> list[str]:
    """A player of AlphaGo's search with these of its parts."""
    overrides = ["{side}.search=alphago", f"{{side}}.seconds={seconds:g}",
                 f"{{side}}.search.rollout_share={ROLLOUT_SHARES[letters]:g}",
                 f"{{side}}.search.rollout={directory}/go.rollout"]
    if "p" in letters:
        overrides.append(f"{{side}}.policy={network(directory, 'imitation')}")  # the supervised one, as in the paper
    if "v" in letters:
        overrides.append(f"{{side}}.value={network(directory, 'value')}")
    if "v" in letters and "r" in letters:
        overrides.append(f"{{side}}.search.value_after={VALUE_AFTER}")
    return overrides


if __name__ == "__main__":
    main()
