"""`shusaku export onnx checkpoint=… file=…`: a network in a format that other programs read."""

import sys
from pathlib import Path
from typing import Any

from shusaku.common.config.schema import Config
from shusaku.common.durable_files import DISK_ERRORS, write_atomically
from shusaku.common.errors import UsageError
from shusaku.common.network.weights import tower_shape
from shusaku.deploy.run.chosen_weights import find_weights


def run(what: str, config: Config, as_json: bool) -> dict[str, Any]:
    """Writes the file; UsageError if it cannot be written, or if the package onnx is not there."""
    if not config.file:
        raise UsageError(f"export {what}: file= is missing; name the file to write, such as file=network.{what}")
    try:
        from shusaku.common.network.onnx_graph import onnx_model
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "onnx":
            raise
        raise UsageError(f"export {what}: the package onnx is not installed; pip install 'shusaku[onnx]'") from None
    chosen = find_weights(config, "checkpoint", config.checkpoint)
    for note in chosen.notes:
        print(note, file=sys.stderr)
    model = onnx_model(chosen.weights, tower_shape(chosen.game, chosen.network))
    data, path = model.SerializeToString(), Path(config.file)
    try:
        write_atomically(path, data)
    except OSError as error:
        if error.errno in DISK_ERRORS:
            raise
        raise UsageError(f"file={path}: {error.strerror}; name a file that can be written") from None
    outputs = {output.name: [d.dim_param or d.dim_value for d in output.type.tensor_type.shape.dim]
               for output in model.graph.output}
    if not as_json:
        shown = ", ".join(f"{name} [{', '.join(map(str, shape))}]" for name, shape in outputs.items())
        print(f"{path}: {chosen.game.name}, version {chosen.weights.version:,}, {len(data) / 1e6:,.2f} MB; planes "
              f"[batch, {', '.join(map(str, chosen.game.observation_shape))}] -> {shown}")
    return {"file": str(path), "game": chosen.game.name, "params": chosen.game.params,
            "version": chosen.weights.version, "step": chosen.weights.step, "bytes": len(data),
            "inputs": {"planes": ["batch", *chosen.game.observation_shape]}, "outputs": outputs,
            "planes_fingerprint": chosen.weights.planes}
