"""What the processes of one learner tell each other: sums and copies of tensors.

By NCCL on GPUs, on CPUs through memory that they share on one host, and by gloo on several.

No Ray here, and no state of the process: several groups may live in one, as in the tests.
"""

from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed
from torch import Tensor

from shusaku.common import _core
from shusaku.learner.shared_table import ROW_BYTES, open_table

# A call within a step waits so long for the other ranks, which are at the same step: one that does not come has lost
# its machine or hangs.  Between two steps rank 0 may be waiting for games, as long as that takes.
STEP_SECONDS = 30.0
IDLE_DAYS = 365.0
MEET_SECONDS = 60.0  # for ranks that are all there to find each other

Store = Any  # where ranks find each other: a torch.distributed.Store
dist: Any = torch.distributed  # whose types do not name what is used here


class Collectives:
    """One rank's end of a group; all ranks make the same calls in the same order.

    RuntimeError if another rank has ended, or does not come in time.  Sums have the same bits on all ranks.
    """

    def __init__(
        self, store: Store, rank: int, size: int, *, device: torch.device = torch.device("cpu"),  # noqa: B008
        host: str = "127.0.0.1", seconds: float = STEP_SECONDS,
    ) -> None:
        """Waits until all `size` ranks are there; `host`: the address at which the other ranks reach this one."""
        self.rank, self.size, self.device, self._seconds = rank, size, device, seconds
        self._idle = _gloo(store, "idle", rank, size, host, IDLE_DAYS * 86400)
        self._group = (_nccl(store, rank, size, seconds) if device.type == "cuda"
                       else _gloo(store, "step", rank, size, host, seconds))
        self._table: _core.SharedTable | None = None
        if device.type == "cpu":
            self._table = open_table(store, rank, size, self.least)

    @property
    def way(self) -> str:
        """How they talk, as text for the user."""
        if self._table is not None:
            return "shared memory"
        return "NCCL" if self.device.type == "cuda" else "gloo"

    def sum(self, tensor: Tensor) -> Tensor:
        """The tensor with the sum over all ranks in it."""
        if self._table is None:
            self._group.allreduce([tensor]).wait()
            return tensor
        numbers = tensor.view(-1).numpy()
        step = ROW_BYTES // numbers.itemsize
        for begin in range(0, len(numbers), step):
            self._table.sum(numbers[begin:begin + step], self._seconds)
        return tensor

    def least(self, value: int) -> int:
        """The least of the numbers of all ranks."""
        tensor = torch.tensor([value], device=self.device)
        if self._table is not None:
            return int(self.gather(tensor).min())
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.MIN
        self._group.allreduce([tensor], options).wait()
        return int(tensor)

    def gather(self, tensor: Tensor) -> Tensor:
        """[size, ...]: the tensors of all ranks, in their order; at most ROW_BYTES of each."""
        table = tensor.new_empty((self.size, *tensor.shape))
        if self._table is not None:
            own, rows = (part.numpy().view(np.uint8) for part in (tensor.reshape(-1), table.reshape(self.size, -1)))
            self._table.gather(own, rows, self._seconds)
            return table
        self._group.allgather([list(table.unbind())], [tensor]).wait()
        return table

    def copy_of_first(self, tensor: Tensor) -> Tensor:
        """The tensor with what rank 0 has in it; the others may wait for that as long as it takes.  On the CPU."""
        self._idle.broadcast(tensor, 0).wait()
        return tensor


def open_store(address: str, port: int = 0) -> Store:
    """The store of a group at rank 0 (port 0: it gets a free one), or at the others a way to that one."""
    return dist.TCPStore(address, port, is_master=port == 0, wait_for_workers=False,
                         timeout=timedelta(seconds=MEET_SECONDS))


def _gloo(store: Store, name: str, rank: int, size: int, host: str, seconds: float) -> Any:
    options = dist.ProcessGroupGloo._Options()
    options._devices = [dist.ProcessGroupGloo.create_device(hostname=host)]
    options._timeout = timedelta(seconds=seconds)
    return dist.ProcessGroupGloo(dist.PrefixStore(name, store), rank, size, options)


def _nccl(store: Store, rank: int, size: int, seconds: float) -> Any:
    options = dist.ProcessGroupNCCL.Options()
    options._timeout = timedelta(seconds=seconds)
    return dist.ProcessGroupNCCL(dist.PrefixStore("step", store), rank, size, options)
