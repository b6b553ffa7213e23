"""One gradient step after another: predict, compare with the targets, step, average, publish."""

from collections.abc import Mapping
from dataclasses import asdict, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shusaku.common._core import Game
from shusaku.common.config.schema import LearnerConfig
from shusaku.common.device_memory import is_out_of_memory, keep_freed_memory, limit_memory
from shusaku.common.errors import UsageError
from shusaku.common.hardware import choose_precision
from shusaku.common.messages import Weights
from shusaku.common.network import convolution_choice
from shusaku.common.network.fingerprint import planes_fingerprint
from shusaku.common.network.network import Network, load_tensors
from shusaku.common.network.target import step_metrics, total_loss
from shusaku.common.network.targets import make_targets
from shusaku.common.network.tower import evaluation_tensors
from shusaku.common.network.weights import is_finite, tower_shape
from shusaku.learner.device_step import DeviceStep, StepSettings
from shusaku.learner.ema import Average
from shusaku.learner.optimizer_state import load_optimizer, optimizer_tensors
from shusaku.learner.optimizers import learning_rate, make_optimizer, take_step
from shusaku.learner.quantisation import POSITIONS, QuantisationError, quantise
from shusaku.learner.state_copy import Diverged, LearnerState, StateBuffers, StateCopy
from shusaku.replay.buffer import Batch, PackedPlanes

READ_EVERY = 32  # queued steps between two looks at their outcome
_SCALE = "scale/"  # before the name of a layer, in the facts of a checkpoint
_ERROR = "int8_error/"  # before policy and value, likewise
_BY_CORE = "by_core/"  # of layers, see `common.network.convolution_choice`
_TRIED = 16  # positions on which a network is tried before it is published or saved


class Learner:
    """Owns the network, its average and the optimizer; has no thread and knows neither buffer nor run directory.

    The caller sets how many threads torch uses: `torch.set_num_threads`.
    """

    def __init__(
        self, network: Network, game: Game, config: LearnerConfig, *, is_quantised: bool = False,
        waits: bool | None = None,
    ) -> None:
        """The network must have a head for each of `learner.targets`.

        `is_quantised`: publications carry scales for 8 bits, computed from positions of the newest batch.  `waits`:
        whether each step waits for its outcome, as on a CPU; on a GPU steps are queued, see `DeviceStep`.
        """
        if config.is_on_gpu and not torch.cuda.is_available():
            raise UsageError("learner.device=cuda: torch finds no GPU that it can use; use learner.device=cpu")
        device = config.chosen_device
        precision = choose_precision(config.precision, device, "learner.precision", half="fp32")
        limit = limit_memory(config.gpus, torch.device(device))
        if device == "cpu":
            keep_freed_memory()
        self._runtime = f"torch {torch.__version__} on {device}{limit}, {precision.name} ({precision.reason})"
        self.network = network.to(device).train()
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.average = Average(network, config.ema_decay)
        self.step_count = 0  # gradient steps done, over the life of the run
        self.skipped_steps = 0  # batches whose loss or gradient was not finite, since this object was made
        self.refused_publications = 0  # networks that were not finite, or whose answers were not
        self.rejected_quantisations = 0  # publications without scales, because the quantisation error was too large
        self._is_quantised = is_quantised
        self._newest: NDArray[np.float32] | PackedPlanes | None = None  # [B, C, H, W] of the last step
        self._scales: dict[str, float] = {}  # of the last publication
        self._quantisation_error: QuantisationError | None = None  # of the last publication
        self.parts = 1  # that a batch is taken in, because the device has too little memory for the whole
        self.rate_factor = 1.0  # of the learning rate; a rollback may lower it
        self._first_step = 0  # of this network, from which its learning rate warms up; later if it has grown
        self.run_share = 0.0  # of the run's time that is used up, as its owner knows it; see `learning_rate`
        self._bad_steps = 0  # skipped in a row
        self._game, self._config, self._targets = game, config, make_targets(config)
        self._planes = planes_fingerprint(game)
        assert {t.name for t in self._targets} == set(network.heads), "the network was made for other targets"
        self._columns = tuple(dict.fromkeys(["weight", *(c for t in self._targets for c in t.columns)]))
        self._device = torch.device(device)
        self._is_bf16 = precision.name == "bf16"
        self._optimizer = make_optimizer(network, config)
        self._parameters = list(network.parameters())
        self._statistics = list(network.buffers())  # of the batch norms: a forward pass changes them
        self._saved_statistics = [t.clone() for t in self._statistics]
        self._sums: dict[str, Tensor] = {}  # of each metric since the last call of `metrics`
        self._summed = 0
        self._grad_norm = 0.0
        self._queue: DeviceStep | None = None
        if not (waits if waits is not None else not config.is_on_gpu):
            self._queue = DeviceStep(network, self.average, self._optimizer, self._targets, self._columns, game,
                                     self._device,
                                     StepSettings(config.max_grad_norm, self._is_bf16, config.gpu_program))
        self._queued = self._queue_skipped = 0  # steps since their outcome was read; skipped ones that were counted

    @property
    def description(self) -> str:
        """Runtime, device, precision and program, and why they were chosen."""
        return self._runtime + (convolution_choice.description() if self._queue is None else self._queue.description)

    @property
    def next_activity(self) -> str:
        """What the next `step` does, in words for a heartbeat."""
        is_settled = self._queue is None or self._queue.is_settled
        return "a gradient step" if is_settled else "choosing the program of its steps"

    def may_step(self) -> bool:
        """Whether `step` may be called with the next batch: one rank of several waits for the others."""
        return True

    def end(self) -> None:
        """No further step comes."""

    def step(self, batch: Batch) -> bool:
        """One gradient step; False if it was skipped because the loss or the gradient was not finite.

        A skipped step leaves the network, its statistics and the optimizer as they were.  Diverged after
        `learner.max_bad_steps` in a row.  On a GPU steps are queued: their outcome is read every READ_EVERY steps and
        whenever the network is.
        """
        if self._queue is not None and self._step_in_queue(self._queue, batch):
            return True
        torch._foreach_copy_(self._saved_statistics, self._statistics)
        observations, labels = self._on_device(batch)
        loss, losses, predictions = self._differentiate(observations, labels)
        if not self._apply(loss):
            return False
        self._newest = batch.observations
        self._add_metrics(loss, losses, predictions, labels)
        return True

    def _step_in_queue(self, queue: DeviceStep, batch: Batch) -> bool:
        """Queues a step; False if the device has no memory for the batch: from now on each step waits, in parts."""
        try:
            queue.run(batch, self._rate(self.step_count), self.average.next_decay())
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            self._read_queue()
            queue.undo()
            self._queue = None
            torch.cuda.empty_cache()
            return False
        self.step_count += 1
        self.average.steps += 1
        self._queued += 1
        self._newest = batch.observations
        if self._queued >= READ_EVERY:
            self._read_queue()
        return True

    def _read_queue(self) -> None:
        """Waits for the steps that are queued; those that turn out to be skipped are counted back."""
        if self._queue is None or not self._queued:
            return
        self._queued = 0
        counts = self._queue.read()
        new, self._queue_skipped = counts.skipped - self._queue_skipped, counts.skipped
        self.step_count -= new
        self.average.steps -= new
        self.skipped_steps += new
        self._bad_steps = counts.skipped_in_a_row
        if counts.most_in_a_row >= self._config.max_bad_steps:
            raise Diverged(f"{counts.most_in_a_row} steps in a row were not finite at step {self.step_count}; "
                           "a lower learner.learning_rate may help")

    def _apply(self, loss: Tensor) -> bool:
        """Steps along the gradient that is in the parameters; False, and nothing changed, if it is not finite."""
        bound = self._config.max_grad_norm or float("inf")
        grad_norm = torch.nn.utils.clip_grad_norm_(self._parameters, bound)
        total, norm = torch.stack([loss, grad_norm]).tolist()
        if not np.isfinite(total) or not np.isfinite(norm):
            self._skip(total, norm)
            return False
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate(self.step_count)
        take_step(self._optimizer)
        self.average.update()
        self.step_count += 1
        self._bad_steps = 0
        self._grad_norm += norm
        return True

    def metrics(self) -> dict[str, float]:
        """Means over the steps since the last call; empty if there were none.  Waits for the device.

        loss/total, loss/<target>, <target>/accuracy or error, grad_norm before clipping, learning_rate now.
        """
        self._read_queue()
        if self._queue is not None:
            sums = self._queue.metrics()
            self._summed, self._grad_norm = round(sums.pop("steps", 0.0)), sums.pop("grad_norm", 0.0)
            self._sums = {name: torch.tensor(value) for name, value in sums.items()}
        if not self._summed:
            return {}
        names = list(self._sums)
        values = (torch.stack([self._sums[name] for name in names]) / self._summed).tolist()
        metrics = dict(zip(names, values, strict=True))
        if self._quantisation_error is not None:
            error = self._quantisation_error
            metrics |= {"int8_policy_error": error.policy, "int8_value_error": error.value,
                        "int8_rejected": self.rejected_quantisations}
        metrics["grad_norm"] = self._grad_norm / self._summed
        metrics["learning_rate"] = self._rate(max(0, self.step_count - 1))
        self._sums, self._summed, self._grad_norm = {}, 0, 0.0
        return metrics

    @torch.no_grad()
    def measure(self, batch: Batch) -> dict[str, float]:
        """The loss of each target over these rows, of the averaged network; nothing is learned."""
        self._read_queue()
        observations, labels = self._on_device(batch)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._is_bf16):
            predictions = self._predict_averaged(observations)
        _, losses = total_loss(predictions, labels, self._targets)
        return {name: float(loss) for name, loss in losses.items()}

    @torch.no_grad()
    def answers_are_finite(self) -> bool:
        """Whether the averaged network answers some positions with finite numbers.

        Finite weights are not enough: those of a run that diverges are so large that their products are infinite.
        Diverged if steps that were queued turn out to be too many bad ones in a row.
        """
        self._read_queue()
        predictions = self._predict_averaged(self._to_planes(self._newest_positions(_TRIED)))
        return all(bool(torch.isfinite(values).all()) for values in predictions.values())

    def _predict_averaged(self, observations: Tensor) -> dict[str, Tensor]:
        """As in play, where batch norms have their statistics."""
        is_training = self.network.training
        self.network.eval()
        try:
            predictions: dict[str, Tensor] = torch.func.functional_call(
                self.network, self.average.own, (observations,))
            return predictions
        finally:
            self.network.train(is_training)

    def _newest_positions(self, rows: int) -> NDArray[np.float32]:
        """[N, C, H, W] of the newest batch, at most so many; the start of the game before there is one."""
        if self._newest is None:
            return self._game.start().observation()[None]
        return _planes_of(self._newest, self._game, rows)

    def _to_planes(self, observations: NDArray[np.float32]) -> Tensor:
        planes = torch.from_numpy(observations).to(self._device, non_blocking=True)
        return planes.contiguous(memory_format=torch.channels_last)

    def _rate(self, step: int) -> float:
        return self.rate_factor * learning_rate(step, self._config, self.run_share, self._first_step)

    def publish(self, version: int) -> Weights | None:
        """The averaged network under this publication number; None, and counted, if it or its answers are not finite.

        Only the tensors that evaluators compute with and `learner.publish_heads`; the heads of other targets stay in
        the checkpoints.  Diverged as by `answers_are_finite`.
        """
        self._read_queue()
        tensors = self.average.tensors()
        if not is_finite(tensors) or not self.answers_are_finite():
            self.refused_publications += 1
            return None
        network = asdict(self.network.config)
        weights = Weights(
            version, self.step_count, evaluation_tensors(tensors, self._config.publish_heads), network,
            self._game.name, self._game.params, planes=self._planes,
        )
        if self._is_quantised and self._newest is not None:
            weights, self._quantisation_error = quantise(
                weights, tower_shape(self._game, self.network.config), self._newest_positions(POSITIONS)
            )
            self.rejected_quantisations += bool(weights.rejected)
            self._scales = weights.scales
        elif self._is_quantised:
            # What was found for the resumed network.
            rejected = self._quantisation_error.reason if self._quantisation_error and not self._scales else ""
            weights = replace(weights, scales=self._scales, rejected=rejected)
        return weights

    def copy_state(self, buffers: StateBuffers) -> StateCopy:
        """Copies everything that decides the next step; fast, because all else is done by `StateCopy.to_state`."""
        self._read_queue()
        random = {"cpu": torch.get_rng_state()}
        if self._device.type == "cuda":
            random["cuda"] = torch.cuda.get_rng_state(self._device)
        live = {
            "network": self.average.live,
            "average": self.average.own, "optimizer": optimizer_tensors(self._optimizer), "random": random,
        }
        facts = {"step": self.step_count, "average_steps": self.average.steps, "rate_factor": self.rate_factor,
                 "first_step": self._first_step}
        facts |= {f"{_SCALE}{layer}": scale for layer, scale in self._scales.items()}
        if self._quantisation_error is not None and np.isfinite(self._quantisation_error).all():  # JSON has no other
            facts |= {f"{_ERROR}{name}": error for name, error in self._quantisation_error._asdict().items()}
        facts |= {f"{_BY_CORE}{layer}": float(by_core) for layer, by_core in convolution_choice.answers().items()}
        return buffers.copy(live, facts)

    def state(self) -> LearnerState:
        """The state for a checkpoint.  Diverged if the network is not finite: no run may go on from such a one."""
        return self.copy_state(StateBuffers()).to_state()

    def restore(self, state: LearnerState) -> None:
        """Goes on from `state`: on the same processor with the same threads, bit for bit as if it had never stopped.

        UsageError if it belongs to another network or optimizer.
        """
        if self._queue is not None:
            self._queue.begin_anew()
            self._queued = self._queue_skipped = 0
        load_tensors(self.network, state.tensors["network"])
        self.average.load(state.tensors["average"], int(state.facts["average_steps"]))
        load_optimizer(self._optimizer, state.tensors["optimizer"])
        torch.set_rng_state(torch.from_numpy(state.tensors["random"]["cpu"].copy()))
        if self._device.type == "cuda" and "cuda" in state.tensors["random"]:
            torch.cuda.set_rng_state(torch.from_numpy(state.tensors["random"]["cuda"].copy()), self._device)
        self.step_count, self.rate_factor = int(state.facts["step"]), state.facts["rate_factor"]
        self._first_step = int(state.facts.get("first_step", 0))
        self._scales = {
            name.removeprefix(_SCALE): value for name, value in state.facts.items() if name.startswith(_SCALE)
        }
        errors = {
            name.removeprefix(_ERROR): value for name, value in state.facts.items() if name.startswith(_ERROR)
        }
        self._quantisation_error = QuantisationError(**errors) if errors and self._is_quantised else None
        convolution_choice.adopt({
            name.removeprefix(_BY_CORE): bool(value) for name, value in state.facts.items()
            if name.startswith(_BY_CORE)})
        self._newest = None
        self._bad_steps = 0
        self._sums, self._summed, self._grad_norm = {}, 0, 0.0

    def go_back(self, state: LearnerState) -> None:
        """`restore` after a divergence: at half of the lower rate, or the same batches would diverge again."""
        factor = self.rate_factor
        self.restore(state)
        self.rate_factor = min(factor, self.rate_factor) * 0.5

    def _differentiate(
        self, observations: Tensor, labels: dict[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
        """Loss, loss of each target, predictions; the gradient is in the parameters.

        If the device has no memory for the batch, it is taken in twice as many parts from now on.  Their gradients
        are added, so the step is that of the whole batch, but for the batch norms, which see one part at a time.
        """
        rows = len(observations)
        while True:
            try:
                return self._differentiate_parts(observations, labels, -(-rows // self.parts))
            except RuntimeError as error:
                if self.parts >= rows or not is_out_of_memory(error):
                    raise
            self.parts *= 2  # here, where the error no longer holds the tensors of the failed try
            self._optimizer.zero_grad(set_to_none=True)
            torch._foreach_copy_(self._statistics, self._saved_statistics)
            if self._device.type == "cuda":
                torch.cuda.empty_cache()

    def _differentiate_parts(
        self, observations: Tensor, labels: dict[str, Tensor], size: int
    ) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
        self._optimizer.zero_grad(set_to_none=True)
        if size >= len(observations):
            loss, losses, predictions = self._predict(observations, labels)
            loss.backward()  # type: ignore[no-untyped-call]
            return loss.detach(), losses, predictions
        parts, all_weights = [], labels["weight"].sum()
        for begin in range(0, len(observations), size):
            rows = slice(begin, begin + size)
            part = {name: column[rows] for name, column in labels.items()}
            share = part["weight"].sum() / all_weights
            loss, losses, predictions = self._predict(observations[rows], part)
            (loss * share).backward()  # type: ignore[no-untyped-call]
            parts.append((share, loss.detach(), losses, {name: value.detach() for name, value in predictions.items()}))
        return (torch.stack([share * loss for share, loss, _, _ in parts]).sum(),
                {name: torch.stack([share * losses[name].detach() for share, _, losses, _ in parts]).sum()
                 for name in parts[0][2]},
                {name: torch.cat([predictions[name] for *_, predictions in parts]) for name in parts[0][3]})

    def _predict(
        self, observations: Tensor, labels: dict[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._is_bf16):
            predictions = self.network(observations)
        return *total_loss(predictions, labels, self._targets), predictions

    def _on_device(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        labels = {
            name: torch.from_numpy(getattr(batch, name)).to(self._device, non_blocking=True) for name in self._columns
        }
        return self._to_planes(_planes_of(batch.observations, self._game)), labels

    def _skip(self, loss: float, norm: float) -> None:
        torch._foreach_copy_(self._statistics, self._saved_statistics)
        self.skipped_steps += 1
        self._bad_steps += 1
        if self._bad_steps >= self._config.max_bad_steps:
            raise Diverged(f"{self._bad_steps} steps in a row were not finite at step {self.step_count} "
                           f"(loss {loss:g}, gradient norm {norm:g}); a lower learner.learning_rate may help")

    @torch.no_grad()
    def _add_metrics(
        self, loss: Tensor, losses: dict[str, Tensor], predictions: dict[str, Tensor], labels: dict[str, Tensor]
    ) -> None:
        self._accumulate(step_metrics(loss, losses, predictions, labels, self._targets))

    def _accumulate(self, metrics: Mapping[str, Tensor]) -> None:
        """Adds what a step has measured to the sums."""
        for name, value in metrics.items():
            self._sums[name] = self._sums[name] + value.detach() if name in self._sums else value.detach()
        self._summed += 1


def _planes_of(
    planes: NDArray[np.float32] | PackedPlanes, game: Game, rows: int | None = None
) -> NDArray[np.float32]:
    """[B, C, H, W] of the first rows."""
    return planes.expand(game, rows) if isinstance(planes, PackedPlanes) else planes[:rows]
