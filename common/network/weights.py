"""Weights as one safetensors file: written whole or not at all, and rejected if a single bit differs."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

from shusaku.common.config.schema import NetworkConfig
from shusaku.common.durable_files import write_atomically
from shusaku.common.errors import UsageError
from shusaku.common.messages import Weights
from shusaku.common.network.fingerprint import planes_fingerprint
from shusaku.common.network.tower import PLAYING_HEADS, TowerShape, fold, folded_shapes, has_head, initial_tensors

if TYPE_CHECKING:
    from shusaku.common._core import Game

FORMAT = 1  # of the metadata; a reader rejects any other
METADATA_KEY = "shusaku"  # the only metadata entry: safetensors writes several in a random order
STORED = {"F32": "<f4", "F16": "<f2"}  # types in the file -> of numpy


def tower_shape(game: "Game", network: NetworkConfig, heads: tuple[str, ...] = ()) -> TowerShape:
    """The tower that evaluates this game, with these heads beside policy and value."""
    return TowerShape(game.observation_shape, game.num_actions, network, heads)


def random_weights(game: "Game", network: NetworkConfig, seed: int, version: int = 0) -> Weights:
    """Weights of an untrained network, the same that `Network(..., seed=seed)` begins with."""
    tensors = initial_tensors(tower_shape(game, network), seed)
    return Weights(version, 0, tensors, dataclasses.asdict(network), game.name, game.params,
                   planes=planes_fingerprint(game))


def network_config(weights: Weights) -> NetworkConfig:
    """The sizes of the network; settings that came after these weights have their defaults."""
    return NetworkConfig(**cast(dict[str, Any], weights.network))


def folded_tensors(weights: Weights, tower: TowerShape) -> dict[str, NDArray[np.float32]]:
    """`common.network.tower.fold` of the weights; ValueError if they belong to another tower.

    A network with the policy or the value alone has zeros for the other head, so that every evaluator answers both:
    equal logits, a value of 0.
    """
    folded = fold(weights.tensors)
    absent = tuple(f"heads.{head}." for head in PLAYING_HEADS if not has_head(weights.tensors, head))
    for name, shape in folded_shapes(tower).items():
        if len(absent) == 1 and name.startswith(absent):
            folded[name] = np.zeros(shape, np.float32)
        if name not in folded or folded[name].shape != shape:
            found = folded[name].shape if name in folded else "nothing"
            raise ValueError(f"weights version {weights.version}: {name} must have shape {shape}, found {found}; "
                             "they belong to another game or network")
    return folded


def is_finite(tensors: Mapping[str, NDArray[np.float32]]) -> bool:
    """Whether every number is neither NaN nor infinite."""
    return all(bool(np.isfinite(tensor).all()) for tensor in tensors.values())


def weights_to_bytes(weights: Weights, *, is_half: bool = False) -> bytes:
    """The safetensors file of these weights: one JSON map of metadata, then the tensors as little-endian float32.

    `is_half`: kernels and matrices as float16, which halves the file; norms and biases stay float32.
    """
    metadata: dict[str, Any] = {
        "format": FORMAT, **{name: getattr(weights, name) for name in ("version", "step", "network", "game", "params")},
        **({"scales": weights.scales} if weights.scales else {}),
        **({"refused": weights.rejected} if weights.rejected else {}),
        **({"planes": weights.planes} if weights.planes else {}),
        **({"about": weights.about} if weights.about else {}),
    }
    tensors = {name: np.ascontiguousarray(t, "<f2" if is_half and t.ndim > 1 else "<f4")
               for name, t in weights.tensors.items()}
    return save(tensors, {METADATA_KEY: json.dumps({**metadata, "digest": _digest(metadata, tensors)}, sort_keys=True)})


def weights_from_bytes(data: bytes, source: str) -> Weights:
    """The inverse; UsageError naming `source` when the bytes are damaged or of another format."""
    metadata, tensors = _parse(data, source)
    stored = metadata.pop("digest", "")
    if metadata.get("format") != FORMAT:
        raise UsageError(f"{source}: weights of format {metadata.get('format', 'unknown')}, this version of Shusaku "
                         f"reads format {FORMAT}; use the version that wrote them")
    if stored != _digest(metadata, tensors):
        raise UsageError(f"{source}: damaged, the SHA-256 of its content is not the stored one; use another checkpoint")
    return Weights(
        metadata["version"], metadata["step"], {name: t.astype(np.float32) for name, t in tensors.items()},
        metadata["network"], metadata["game"], metadata["params"],
        sha256=hashlib.sha256(data).hexdigest(), scales=metadata.get("scales", {}),
        rejected=metadata.get("refused", ""), planes=metadata.get("planes", ""), about=metadata.get("about", {}),
    )


def _parse(data: bytes, source: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    try:
        entries: list[tuple[str, dict[str, Any]]] = deserialize(data)  # type: ignore[no-untyped-call]
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        metadata = dict(json.loads(header["__metadata__"][METADATA_KEY]))
        tensors = {name: np.frombuffer(e["data"], STORED[e["dtype"]]).reshape(e["shape"]) for name, e in entries}
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{source}: damaged or not a weights file ({error}); use another checkpoint") from error
    return metadata, tensors


def _digest(metadata: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 over everything that has a meaning: metadata, and names, shapes and numbers of the tensors."""
    total = hashlib.sha256(json.dumps(dict(metadata), sort_keys=True).encode())
    for name in sorted(tensors):
        total.update(f"{name} {tensors[name].shape}".encode())
        total.update(tensors[name].data)
    return total.hexdigest()


def save_weights(path: Path, weights: Weights) -> Weights:
    """Writes the file atomically; returns the weights with the SHA-256 of its bytes.

    OSError when the disk refuses: then nothing of the new file stays and an older one of this name is intact.
    """
    data = weights_to_bytes(weights)
    write_atomically(path, data)
    return dataclasses.replace(weights, sha256=hashlib.sha256(data).hexdigest())


def load_weights(path: Path, sha256: str = "") -> Weights:
    """Reads and verifies a file; UsageError when it is missing, damaged, or not the one that `sha256` names."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); give a weights file that exists") from error
    if sha256 and hashlib.sha256(data).hexdigest() != sha256:
        raise UsageError(f"{path}: damaged, its SHA-256 is not {sha256[:12]}…; use another checkpoint")
    return weights_from_bytes(data, str(path))
