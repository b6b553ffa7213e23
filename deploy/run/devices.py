"""Which parts of a run compute on which GPUs: what the configuration leaves open is decided by the GPUs that there are.

| GPUs | by default |
|---|---|
| none | all on CPUs: the network inside each actor |
| 1 | half of it serves, half of it learns: neither waits for a whole one |
| n | one learns; the others serve, one inference server each, as many as the actors can ask |
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from urllib.parse import urlsplit

from shusaku.common.config.schema import Config
from shusaku.common.errors import UsageError
from shusaku.common.hardware import GpuMemory, visible_gpus
from shusaku.deploy.run.composed_config import replace_settings

CUDA, CPU = "cuda", "cpu"
HALF = 0.5
GATE_GPU = 0.1  # of the GPU of an inference server, which the gate shares
LEAST_FREE = 1 << 30  # bytes of a GPU's memory, without which nothing is started
LOOPBACK = ("localhost", "127.0.0.1", "::1")
SLACK = 1e-6  # of sums of fractions


@dataclass(frozen=True)
class Devices:
    """Where the network plays and where it learns."""

    inference: str  # cpu | cuda
    learner: str
    servers: int  # inference servers, if actors ask servers
    gpus_per_server: float  # of Ray's; 0: none
    learner_gpus: float
    reason: str  # one line without a full stop
    learner_is_here: bool = True  # on the machine where the command began

    def settle(self, config: Config) -> Config:
        """The configuration with these devices and shares in the place of `auto`."""
        return replace_settings(
            config, inference=replace(config.inference, device=self.inference, servers=self.servers,
                                      gpus_per_server=self.gpus_per_server),
            learner=replace(config.learner, device=self.learner, gpus=self.learner_gpus))


def devices_of(config: Config, gpus: float, here: float | None = None, *, most_servers: int = 256) -> Devices:
    """The devices of a run on so many GPUs in all, of which `here` are on the learner's machine (None: all).

    `most_servers`: that the actors could keep busy.  UsageError, with the numbers, if what is asked for does not fit.
    """
    inference, learner = config.inference, config.learner
    here = gpus if here is None else here
    obstacle = _obstacle(config)
    serves = inference.is_on_gpu or (inference.device == "auto" and gpus > 0 and not obstacle)
    stays = _tie_of_learner(config)
    learns = learner.enabled and (learner.is_on_gpu or (
        learner.device == "auto" and (here if stays else gpus) > 0))
    # A part that computes on the CPU may hold a share that is asked for, as a stand-in for one that needs it.
    share = learner.gpus if learner.enabled else 0.0
    if learns and not share:
        share = _share_of_learner(config, gpus) if serves and learner.ranks == 1 else 1.0
    servers, each = inference.servers or 1, 0.0
    if serves:
        free = _free(gpus, share, learner.ranks)
        each = inference.gpus_per_server or _share_of_each(free, inference.servers or 1)
        servers = inference.servers or max(1, min(most_servers, sum(_fit(one, each) for one in free)))
    devices = Devices(CUDA if serves else CPU, CUDA if learns else CPU, servers, each, share,
                      _reason(gpus, servers, each, share, learns, obstacle, learner.ranks), share <= here + SLACK)
    _check(config, devices, gpus, here)
    return devices if devices.learner_is_here else replace(
        devices, reason=f"{devices.reason}; the learner on another machine")


def settle_here(config: Config, *, keeps_shares: bool = False) -> Config:
    """For one process, whose parts share the first GPU of this machine; UsageError if there is none to use.

    `keeps_shares`: of the GPU's memory, as they were asked for: another process has the rest.
    """
    gpus = min(1, visible_gpus())
    for section in ("inference", "learner"):
        if getattr(config, section).is_on_gpu and not gpus:
            raise UsageError(f"{section}.device=cuda: torch finds no GPU that it can use; use {section}.device=cpu")
    # One process has no shares, whatever a run of several would have: its memory is one.
    alone = replace_settings(config, inference=replace(config.inference, servers=0, gpus_per_server=0.0),
                             learner=replace(config.learner, gpus=0.0))
    settled = devices_of(alone, gpus).settle(alone)
    each, share = (config.inference.gpus_per_server, config.learner.gpus) if keeps_shares and gpus else (0.0, 0.0)
    return replace_settings(settled, inference=replace(settled.inference, gpus_per_server=each),
                            learner=replace(settled.learner, gpus=share))


def check_memory(devices: Devices, memory: Sequence[GpuMemory]) -> None:
    """UsageError if a GPU of this machine has less free memory than half of what its parts may take.

    Other programs may hold it; what is free can change, but a run that starts without has nothing to begin with.
    """
    shares = devices.servers * devices.gpus_per_server + devices.learner_gpus
    if not shares:
        return
    for index, gpu in enumerate(memory[: math.ceil(shares - SLACK)]):
        if gpu.free < max(LEAST_FREE, min(1.0, shares) * gpu.total / 2):
            raise UsageError(f"GPU {index}: {gpu.free / 2**30:.1f} of {gpu.total / 2**30:.1f} GB of its memory are "
                             "free, and a run needs half; end what holds it (nvidia-smi lists that), choose other GPUs "
                             "by CUDA_VISIBLE_DEVICES, or use inference.device=cpu learner.device=cpu")


def _obstacle(config: Config) -> str:
    """Why the games of this run are not evaluated on a GPU unless one is asked for; empty if they are."""
    inference = config.inference
    for is_so, why in (
        (bool(config.dataset.records), "no games are played"),
        (config.reinforce.enabled, "an actor of policy gradient evaluates two policies by itself"),
        (config.value.enabled, "games for a value network are evaluated by their actors"),
        (inference.placement == "actor", "inference.placement=actor"),
        (inference.runtime not in ("auto", "torch"), f"inference.runtime={inference.runtime}"),
    ):
        if is_so:
            return why
    return ""


def _tie_of_learner(config: Config) -> str:
    """What of the machine where the command began the learner needs; empty: it may learn on any."""
    if config.dataset.records or config.reinforce.enabled:
        return "reads files of"
    url = urlsplit(config.replay.url)
    if config.replay.url and (url.scheme == "unix" or url.hostname in LOOPBACK):
        return "reaches replay.url only on"
    return ""


def _share_of_learner(config: Config, gpus: float) -> float:
    """A whole GPU if the servers have theirs as well; else what a server leaves of one."""
    each, servers = config.inference.gpus_per_server or 1.0, config.inference.servers or 1
    a_gpu = _fit(1.0, each)  # servers that one holds; a larger share than one takes several GPUs
    if gpus - math.ceil(servers / max(1, a_gpu)) > 1 - SLACK:
        return 1.0
    beside = min(a_gpu, max(1, servers - (math.floor(gpus + SLACK) - 1) * a_gpu))  # servers on the learner's own GPU
    return 1 - beside * each if each < 1 else HALF


def _free(gpus: float, share: float, ranks: int) -> list[float]:
    """What is free of each GPU, once each rank of the learner has its share of one of them."""
    each = [1.0] * math.floor(gpus + SLACK)
    if share:
        for place in range(min(ranks, len(each))):
            each[place] -= share
    return each


def _share_of_each(free: list[float], servers: int) -> float:
    """The largest share that so many servers can have: a whole GPU, or equal parts of what is free."""
    for parts in range(1, servers + 1):
        for share in sorted({one / parts for one in free if one > SLACK}, reverse=True):
            if sum(_fit(one, share) for one in free) >= servers:
                return math.floor(share * 100 + SLACK) / 100
    return 1.0  # none is free: the check says so


def _fit(free: float, share: float) -> int:
    return math.floor(free / share + SLACK)


def _check(config: Config, devices: Devices, gpus: float, here: float) -> None:
    serves = devices.inference == CUDA
    if config.inference.runtime == "openvino" and find_spec("openvino") is None:
        raise UsageError("inference.runtime=openvino: the package openvino is not installed; install it, or use "
                         "inference.runtime=auto")
    if serves and config.gating != "none" and devices.gpus_per_server < 2 * GATE_GPU - SLACK:
        raise UsageError(f"inference.gpus_per_server={devices.gpus_per_server:g}: the gate takes {GATE_GPU:g} of a "
                         f"server's GPU; use at least {2 * GATE_GPU:g}, or gating=none")
    if serves and config.inference.precision == "int8":
        raise UsageError("inference.precision=int8: a GPU computes in bf16, fp16 or fp32 here; use "
                         "inference.precision=auto, or inference.device=cpu")
    asked = f"inference.device={config.inference.device}, learner.device={config.learner.device}: "
    ranks = config.learner.ranks
    needed = devices.servers * devices.gpus_per_server * serves + ranks * devices.learner_gpus
    free = _free(gpus, devices.learner_gpus, ranks)
    fitting = sum(_fit(one, devices.gpus_per_server) for one in free) if serves else 0
    for section, device in (("inference", config.inference.device), ("learner", config.learner.device)):
        if device == CUDA and not gpus:
            raise UsageError(f"{section}.device=cuda: there is no GPU; use {section}.device=cpu, or auto")
    if ranks > 1 and devices.learner_gpus and ranks > math.floor(gpus + SLACK):
        raise UsageError(f"learner.ranks={ranks}: each needs a GPU to itself, and there are {gpus:g}; use "
                         f"learner.ranks={max(1, math.floor(gpus + SLACK))} at most, or learner.device=cpu")
    if not devices.learner_is_here and devices.learner_gpus <= gpus + SLACK and (stays := _tie_of_learner(config)):
        raise UsageError(f"{asked}this learner {stays} the machine where the command began, which has {here:g} GPUs; "
                         "begin there where a GPU is, or use learner.device=cpu")
    if needed > gpus + SLACK or (serves and devices.servers > fitting):
        raise UsageError(
            f"{asked}{devices.servers if serves else 0} inference servers with {devices.gpus_per_server:g} GPU each "
            f"and {'a learner' if ranks == 1 else f'{ranks} ranks'} with {devices.learner_gpus:g} do not fit on the "
            f"{gpus:g} GPUs that there are; use cpu for one of them, fewer inference.servers, or smaller "
            "inference.gpus_per_server and learner.gpus")


def _reason(
    gpus: float, servers: int, each: float, share: float, learns: bool, obstacle: str, ranks: int
) -> str:
    if not each and not share:
        return "no GPU: all on CPUs" if not gpus else f"on CPUs, of {gpus:g} GPUs none: {obstacle or 'as asked for'}"
    serving = f"games on CPUs ({obstacle or 'as asked for'})"
    if each:
        serving = f"{servers} inference server{'s' * (servers > 1)} with {_gpu(each)}{' each' * (servers > 1)}"
    learner = "the learner" if ranks == 1 else f"{ranks} ranks of the learner"
    learning = f"{learner} with {_gpu(share)}{' each' * (ranks > 1)}" if learns else (
        f"{learner} on CPUs, which holds {_gpu(share)}" if share else f"{learner} on CPUs")
    return f"{serving}; {learning}; of {gpus:g} in all"


def _gpu(share: float) -> str:
    return "a GPU" if share == 1 else f"{share:.0%} of a GPU"
