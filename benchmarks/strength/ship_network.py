"""Makes the network of a run one that ships in the wheel: deploy/shipped/NAME/.

    python -m benchmarks.strength.ship_network RUN_DIR NAME --training "20 minutes on 2 cores" --strength "..."

The texts are what `shusaku checkpoint describe checkpoint=shipped` and the metadata of an export say.  Kernels are
stored as float16.  Of the heads beside policy and value, ownership and score stay, which tools can show.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from shusaku.common._core import Game
from shusaku.common.durable_files import write_atomically
from shusaku.common.network.fingerprint import check_planes, planes_fingerprint
from shusaku.common.network.weights import weights_from_bytes, weights_to_bytes
from shusaku.deploy.run.chosen_weights import average_weights
from shusaku.deploy.run.saved_config import FILE, config_text, read_config
from shusaku.learner.checkpoints import WEIGHTS, load_latest

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "shipped"
LARGEST = 1_000_000  # bytes of a file
HEADS = ("policy", "value", "ownership", "score")
SECTIONS = ("experiment", "game", "network", "search", "self_play", "learner")  # of config.yaml: nothing of a machine


def ship(run: Path, name: str, about: dict[str, str]) -> Path:
    """Writes weights and settings; the path of the weights file."""
    data = small_file(run, about)
    assert len(data) <= LARGEST, f"{len(data):,} bytes"
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / WEIGHTS, data)
    saved = read_config(run)
    write_atomically(folder / FILE, config_text({section: saved[section] for section in SECTIONS}).encode())
    read = weights_from_bytes(data, name)
    print(f"{folder}: {read.game}, version {read.version}, step {read.step:,}, {len(data):,} bytes")
    return folder / WEIGHTS


def small_file(run: Path, about: dict[str, str]) -> bytes:
    """The bytes of a weights file with the network of the run's newest checkpoint."""
    found, saved = load_latest(run / "checkpoints"), read_config(run)
    assert found is not None, run
    weights = average_weights(found.checkpoint, saved)
    tensors = {key: tensor for key, tensor in weights.tensors.items()
               if not key.startswith("heads.") or key.split(".")[1] in HEADS}
    planes = planes_fingerprint(Game(weights.game, weights.params))
    check_planes(Game(weights.game, weights.params), weights.planes, str(run))
    return weights_to_bytes(replace(weights, tensors=tensors, planes=planes, about={**about, "licence": "Apache-2.0"}),
                            is_half=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("name")
    parser.add_argument("--training", required=True)
    parser.add_argument("--strength", required=True)
    given = parser.parse_args()
    ship(given.run, given.name, {"training": given.training, "strength": given.strength})
