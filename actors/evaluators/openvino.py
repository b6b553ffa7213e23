"""The network on a CPU: an OpenVINO graph built straight from the weights, one thread, one static batch size.

Compiling a graph takes 45 to 140 ms for 64 filters x 5 blocks, too long between two batches of self-play.  New weights
only change the constants, so a graph full of marker numbers is compiled and exported once in a process; each load
copies that blob, writes the new constants where the markers lie, and imports it: 12 to 16 ms.  If an OpenVINO
version stores the constants in another form, or the check at the end of `_Template` fails, every load compiles.

In 8 bits every load compiles, because scales and quantised weights are part of the graph.  Weights without scales are
used in the next best precision, and their metadata gives the reason.
"""

import threading
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shusaku.actors.evaluators.channels_last import Inputs, channels_last, input_type
from shusaku.actors.evaluators.openvino_package import op, ov
from shusaku.common.hardware import Precision, cpu_has_bf16
from shusaku.common.messages import Weights
from shusaku.common.network.rounding import rounded_kernel
from shusaku.common.network.tower import SCORE_SCALE, Shape, Tensors, TowerShape, folded_shapes
from shusaku.common.network.weights import folded_tensors

VERSION = ov.__version__.split("-")[0]
_TYPES = {"fp32": ov.Type.f32, "bf16": ov.Type.bf16}
_lock = threading.Lock()
_templates: dict[str, "_Template"] = {}


class OpenVINORuntime:
    """One compiled network for batches of `batch_size`, of one thread; see `actors.evaluators.evaluator.Runtime`."""

    runtime_name = "openvino"
    has_fixed_batch = True

    def __init__(self, tower: TowerShape, batch_size: int, precision: Precision) -> None:
        self._wanted = precision
        self._float = "bf16" if cpu_has_bf16() else "fp32"  # of the layers that are not quantised
        self.precision = self._float if precision.name == "int8" else precision.name
        self._why = precision.reason
        self._tower = tower
        # OpenVINO owns these three; every compiled network reads and writes the same memory.
        c, h, w = tower.planes
        self._input = ov.Tensor(_TYPES[self.precision], ov.Shape([batch_size, h, w, c]))
        self._policy = ov.Tensor(ov.Type.f32, ov.Shape([batch_size, tower.num_actions]))
        self._value = ov.Tensor(ov.Type.f32, ov.Shape([batch_size, 1]))
        self.inputs: Inputs = self._input.data.view(input_type(self.precision))
        self.policy: NDArray[np.float32] = self._policy.data  # [S, A]
        self.values: NDArray[np.float32] = self._value.data.reshape(batch_size)  # [S]
        self._heads = {head: ov.Tensor(ov.Type.f32, ov.Shape(list(shape)))
                       for head, shape in tower.head_shapes(batch_size).items()}
        self.heads: dict[str, NDArray[np.float32]] = {head: tensor.data for head, tensor in self._heads.items()}
        self.inputs.fill(0)
        self._template = _template(tower, batch_size, self.precision)
        self._request: Any = None
        self._blob = b""

    @property
    def description(self) -> str:
        """Program and version, the precision that is in use now, and why."""
        return f"openvino {VERSION}, {self.precision} ({self._why})"

    def load(self, weights: Weights) -> None:
        """Uses these weights from now on; ValueError, and no change, if they belong to another tower."""
        constants = folded_tensors(weights, self._tower)
        if self._wanted.name == "int8" and weights.scales:
            compiled, blob = self._template.compile_graph(constants, weights.scales), b""
            self.precision, self._why = "int8", self._wanted.reason
        else:
            compiled, blob = self._template.compile(constants)
            if self._wanted.name == "int8":
                self.precision = self._float
                self._why = f"not int8: {weights.rejected or 'these weights have no scales'}"
        request = compiled.create_infer_request()
        request.set_input_tensor(self._input)
        request.set_output_tensor(0, self._policy)
        request.set_output_tensor(1, self._value)
        for number, head in enumerate(self._tower.heads, 2):
            request.set_output_tensor(number, self._heads[head])
        self._request = request  # the old network goes before its bytes do
        self._blob = blob

    def run(self, rows: int) -> None:
        """Evaluates the whole batch in the calling thread; the GIL is released."""
        self._request.infer(share_outputs=True)  # without this it copies the outputs, which our arrays already hold


def build_graph(
    tower: TowerShape, batch_size: int, precision: str, constants: Mapping[str, NDArray[np.float32]],
    scales: Mapping[str, float] | None = None,
) -> ov.Model:
    """[S, H, W, C] -> policy logits [S, A], value [S, 1] and heads, from the folded tensors of `common.network.tower`.

    The inputs are of `precision` (fp32 | bf16).  The layers of `scales` are quantised to 8 bits, as in
    `learner.quantisation`.
    """
    c, h, w = tower.planes
    graph = _Graph(tower, batch_size, constants, scales or {})
    planes = op.parameter([batch_size, h, w, c], _TYPES[precision])
    x = planes if precision == "fp32" else op.convert(planes, np.float32)
    x = graph.features(op.transpose(x, [0, 3, 1, 2]))  # the order of the bytes stays as it is
    policy = graph.plain_policy(x) if tower.is_plain else graph.policy(x)
    heads = [graph.ownership(x) if head == "ownership" else graph.score(x) for head in tower.heads]
    return ov.Model([policy, op.tanh(graph.number(x, "value")), *heads], [planes])


class _Graph:
    """The layers over constants; S positions, cells H x W, filters F."""

    def __init__(
        self, tower: TowerShape, batch_size: int, constants: Mapping[str, NDArray[np.float32]],
        scales: Mapping[str, float],
    ) -> None:
        self._tower, self._rows, self._constants, self._scales = tower, batch_size, constants, scales
        self._network = tower.network
        self._cells = tower.planes[1] * tower.planes[2]

    def features(self, x: Any) -> Any:
        """Planes [S, C, H, W] -> [S, F, H, W], what all heads read."""
        x = op.relu(self._convolution(x, "stem"))
        if self._tower.is_plain:
            for layer in self._tower.layers:
                x = op.relu(self._convolution(x, layer))
            return x
        for i in range(self._network.blocks):
            y = op.relu(self._convolution(x, f"blocks.{i}.first"))
            y = self._convolution(y, f"blocks.{i}.second")
            if self._network.squeeze:
                y = self._excite(y, f"blocks.{i}")
            x = op.relu(op.add(x, y))
        return x

    def policy(self, x: Any) -> Any:
        """`common.network.heads.PolicyHead`: features -> logits [S, A]."""
        p, filters = op.relu(self._convolution(x, "heads.policy.features")), self._network.policy_filters
        if self._network.policy_head != "planes":
            return self._linear(self._reshape(p, self._rows, filters * self._cells), "heads.policy.output")
        p = op.transpose(self._reshape(p, self._rows, filters, self._cells), [0, 2, 1])  # [S, H * W, P]
        p = self._linear(self._reshape(p, self._rows * self._cells, filters), "heads.policy.output")
        return self._reshape(p, self._rows, self._tower.num_actions)

    def plain_policy(self, x: Any) -> Any:
        """`common.network.heads.PlainPolicyHead`: features -> logits [S, A]."""
        filters = op.constant(self._constants["heads.policy.output.weight"])
        p = op.transpose(op.convolution(x, filters, [1, 1], [0, 0], [0, 0], [1, 1]), [0, 2, 3, 1])  # [S, H, W, K]
        p = self._reshape(p, self._rows, self._tower.cell_actions * self._cells)
        if "heads.policy.others.output.weight" in self._constants:
            others = op.constant(self._constants["heads.policy.others.output.weight"])
            p = op.concat([p, op.matmul(_means(x), others, False, True)], 1)
        return op.add(p, op.constant(self._constants["heads.policy.output.bias"].reshape(1, -1)))

    def number(self, x: Any, head: str) -> Any:
        """`common.network.heads.NumbersHead` of one number: features -> [S, 1]."""
        if self._tower.is_plain:
            y = self._convolution(op.relu(self._convolution(x, f"heads.{head}.layer")), f"heads.{head}.features")
        else:
            y = op.relu(self._convolution(x, f"heads.{head}.features"))
        y = self._reshape(y, self._rows, self._network.value_filters * self._cells)
        return self._linear(op.relu(self._linear(y, f"heads.{head}.hidden")), f"heads.{head}.output")

    def ownership(self, x: Any) -> Any:
        """Features -> [S, H, W]."""
        owners = op.tanh(self._convolution(x, "heads.ownership.output"))
        return self._reshape(owners, self._rows, *self._tower.planes[1:])

    def score(self, x: Any) -> Any:
        """Features -> points [S]."""
        return self._reshape(op.multiply(self.number(x, "score"), op.constant(np.float32(SCORE_SCALE))), self._rows)

    def _excite(self, y: Any, block: str) -> Any:
        """Squeeze and excitation of `common.network.network.Block`."""
        both = self._linear(op.relu(self._linear(_means(y), f"{block}.squeeze")), f"{block}.excite")  # [S, 2 F]
        halves = op.split(self._reshape(both, self._rows, 2 * self._network.filters, 1, 1), op.constant(1), 2)
        gate, shift = halves.outputs()  # [S, F, 1, 1]
        return op.add(op.multiply(y, op.sigmoid(gate)), shift)

    def _convolution(self, x: Any, name: str) -> Any:
        kernel = self._constants[f"{name}.weight"]
        pad = [kernel.shape[2] // 2] * 2
        if name in self._scales:
            x = _quantised_input(x, self._scales[name])
            weights = _quantised_kernel(kernel)
        else:
            weights = op.constant(kernel)
        y = op.convolution(x, weights, [1, 1], pad, pad, [1, 1])
        return op.add(y, op.constant(self._constants[f"{name}.bias"].reshape(1, -1, 1, 1)))

    def _linear(self, x: Any, name: str) -> Any:
        y = op.matmul(x, op.constant(self._constants[f"{name}.weight"]), False, True)
        return op.add(y, op.constant(self._constants[f"{name}.bias"].reshape(1, -1)))

    def _reshape(self, x: Any, *shape: int) -> Any:
        return op.reshape(x, list(shape), False)


def _means(x: Any) -> Any:
    """[S, F, H, W] -> [S, F]."""
    return op.reduce_mean(x, op.constant(np.array([2, 3])), False)


def _quantised_input(x: Any, largest: float) -> Any:
    """256 steps from 0; OpenVINO computes with the steps where it can."""
    low, high = (op.constant(np.full((1, 1, 1, 1), bound, np.float32)) for bound in (0.0, largest))
    return op.fake_quantize(x, low, high, low, high, 256)


def _quantised_kernel(kernel: NDArray[np.float32]) -> Any:
    """255 steps around 0, of a size for each output channel."""
    integers, step = rounded_kernel(kernel)
    return op.multiply(op.convert(op.constant(integers), np.float32), op.constant(step))


def _template(tower: TowerShape, batch_size: int, precision: str) -> "_Template":
    """The template of this process for these sizes, made at the first call."""
    with _lock:
        key = f"{tower} {batch_size} {precision}"
        if key not in _templates:
            _templates[key] = _Template(tower, batch_size, precision)
        return _templates[key]


@cache
def _core_of_process() -> Any:
    return ov.Core()


class _Template:
    """A compiled graph in bytes, and where each constant lies in it."""

    def __init__(self, tower: TowerShape, batch_size: int, precision: str) -> None:
        self._tower, self._batch_size, self._precision = tower, batch_size, precision
        self._options: dict[str, Any] = {
            "INFERENCE_PRECISION_HINT": {"fp32": "f32", "bf16": "bf16"}[precision],
            "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "ENABLE_CPU_PINNING": False,
        }
        self._blob: NDArray[np.uint8] | None = None
        self._places: dict[str, int] = {}  # tensor -> first byte in the blob
        markers = _markers(folded_shapes(tower), 1)
        try:
            exported = self.compile_graph(markers).export_model()
            self._adopt(exported if isinstance(exported, bytes) else exported.getvalue(), markers)
            if self._blob is not None and not self._is_faithful():
                self._blob = None
        except (RuntimeError, TypeError):  # this version of OpenVINO exports or imports in another way
            self._blob = None

    def compile(self, constants: Tensors) -> tuple[Any, bytes]:
        """A compiled network with these folded tensors, and the bytes that must outlive it.

        Imported constants may lie in the blob itself: freed too early, the network computes with garbage.
        """
        if self._blob is None:
            return self.compile_graph(constants), b""
        blob = self._blob.copy()
        for name, place in self._places.items():
            constant = np.ascontiguousarray(constants[name], np.float32).reshape(-1).view(np.uint8)
            blob[place : place + len(constant)] = constant
        data = blob.tobytes()
        return _core_of_process().import_model(data, "CPU", self._options), data

    def compile_graph(self, constants: Tensors, scales: Mapping[str, float] | None = None) -> Any:
        """The same without the blob, and with the layers of `scales` in 8 bits."""
        return _core_of_process().compile_model(
            build_graph(self._tower, self._batch_size, self._precision, constants, scales), "CPU", self._options
        )

    def _adopt(self, blob: bytes, markers: Tensors) -> None:
        """Keeps the blob if every marker tensor lies in it exactly once."""
        for name, tensor in markers.items():
            data = tensor.tobytes()
            place = blob.find(data)
            if place < 0 or blob.find(data, place + 1) >= 0:
                return
            self._places[name] = place
        self._blob = np.frombuffer(blob, np.uint8)

    def _is_faithful(self) -> bool:
        """Whether a patched blob answers what a graph compiled from the same constants answers."""
        constants = _markers(folded_shapes(self._tower), 2)
        c, h, w = self._tower.planes
        planes = ov.Tensor(_TYPES[self._precision], ov.Shape([self._batch_size, h, w, c]))
        inputs = planes.data.view(input_type(self._precision))
        inputs[...] = channels_last(np.random.default_rng(3).random((self._batch_size, c, h, w), np.float32), inputs)
        network, _blob = self.compile(constants)
        patched = [np.array(out) for out in network(planes).values()]
        compiled = [np.array(out) for out in self.compile_graph(constants)(planes).values()]
        return all(np.allclose(a, b, rtol=1e-3, atol=1e-3) for a, b in zip(patched, compiled, strict=True))


def _markers(shapes: Mapping[str, Shape], seed: int) -> Tensors:
    """Random numbers that keep the activations of the tower in an ordinary range, and no two tensors alike."""
    random = np.random.default_rng(seed)
    tensors = {}
    for name, shape in shapes.items():
        scale = 0.5 / np.sqrt(max(1, int(np.prod(shape[1:]))))
        tensors[name] = (random.standard_normal(shape) * scale).astype(np.float32)
    return tensors
