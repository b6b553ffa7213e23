"""What a GPU is worth: inference beside the network alone, the learner beside a bare compiled step, both on one GPU.

    python -m benchmarks.speed.gpu [--seconds 12] [--only NAME ...] [--eager] [--record]

| part | bound |
|---|---|
| evaluations/s through the server, of the network alone: Go 9x9 64x4, 9x9 128x10, 19x19 256x20 | 70, 90, 95 % |
| the learner's step, 19x19 256x20, mini-batches of 2,048, of a bare compiled step | 85 % |
| both on one GPU: evaluations/s and steps/s, each of what it is alone, added; neither below 0.3 | 0.85 |
| p99 of a batch on a shared GPU, of that on one of its own | below 2 times |
| these two once more under NVIDIA's MPS, whose daemon is started for it and ended | the same |
| Go 9x9 64x4, players that reach the server over TCP alone: the GPU is busy | 80 % |

As many processes play as there are cores but one.  What they ask for if an answer costs nothing is measured beside each
network: where that is less than the network's rate, no server could reach its share.  Every part runs in processes of
its own, and is recorded at once.  A part that would begin after LAST_START seconds is named and left out.  Exits with 1
if a bound is missed or a part is left out, and with 2 without a GPU.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from benchmarks.lib import ROOT, record, run_shusaku
from shusaku.common.mps import mps_runs

FILE = "gpu.jsonl"
NETWORKS = {  # name -> overrides, least share of the network alone
    "Go 9x9, 64x4": (["game=go", "game.size=9", "network.filters=64", "network.blocks=4"], 0.70),
    "Go 9x9, 128x10": (["game=go", "game.size=9", "network.filters=128", "network.blocks=10"], 0.90),
    "Go 19x19, 256x20": (["game=go", "game.size=19", "network.filters=256", "network.blocks=20"], 0.95),
}
SMALLEST, LARGEST = "Go 9x9, 64x4", "Go 19x19, 256x20"
SHARED, MPS_CONTROL = "one GPU for both", "nvidia-cuda-mps-control"
BATCH = 2048
LEAST_STEP, LEAST_SUM, LEAST_EACH, MOST_SLOWER, LEAST_BUSY = 0.85, 0.85, 0.3, 2.0, 0.8
SERVED = ["inference.placement=server", "actors.games_per_actor=auto"]
PROGRAMS: list[str] = []  # overrides: which programs compute the networks; none: the faster ones
TABLE = "{:55} {:>22} {:>10} {}"
LAST_START = 400.0  # seconds after which no part begins: the whole is to end within 9 minutes
Measure = Callable[[dict[str, Any], float], tuple[dict[str, Any], bool]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=12, help="of each measurement")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=PARTS, help=f"parts: {', '.join(PARTS)}")
    parser.add_argument("--record", action="store_true", help=f"append the result to benchmarks/results/{FILE}")
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--learn", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--eager", action="store_true", help="nothing is compiled, which saves minutes")
    options = parser.parse_args()
    if options.eager:
        PROGRAMS.extend(["inference.gpu_program=eager", "learner.gpu_program=eager"])
    if options.bare:
        print(json.dumps({"steps_per_s": bare_steps_per_s(options.seconds)}))
    elif options.learn:
        learn_until_the_input_ends()
    else:
        sys.exit(not measure_all(options))


def measure_all(options: argparse.Namespace) -> bool:
    """Whether every part was measured and reached its bound."""
    begin, names = time.monotonic(), gpu_names()
    print(*names, sep="\n")
    found: dict[str, Any] = {}
    good = []
    for part, measure in PARTS.items():
        if part not in (options.only or PARTS):
            continue
        if time.monotonic() - begin > LAST_START:
            print(TABLE.format(part, "left out", "", "no time is left"), flush=True)
            good.append(False)
            continue
        good.append(_measured(part, measure, found, options.seconds))
        if options.record and part in found:
            command = shlex.join(["python", "-m", "benchmarks.speed.gpu", *sys.argv[1:]])
            record(FILE, command, gpu=names[0], part=part, **found[part])
    return all(good)


def gpu_names() -> list[str]:
    """Name, memory and driver of each GPU; exits with 2 if there is none.  The first one is measured."""
    try:
        asked = subprocess.run(["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"],
                               capture_output=True, text=True, check=True)
        names = asked.stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        names = []
    if not names:
        print("no GPU is found here: nvidia-smi names none", file=sys.stderr)
        sys.exit(2)
    return names


def _measured(part: str, measure: Measure, found: dict[str, Any], seconds: float) -> bool:
    """Whether the part reached its bound; a part that fails is named, and the others go on."""
    begin = time.monotonic()
    try:
        result, is_good = measure(found, seconds)
    except SystemExit as error:
        print(TABLE.format(part, "failed", "", f"exit code {error.code}"), flush=True)
        return False
    found[part] = result
    print(TABLE.format(part, *result["shown"], "" if is_good else "MISSED"),
          f"({time.monotonic() - begin:.0f} s)", flush=True)
    return is_good


def serving(network: str) -> Measure:
    """Self-play through the server, beside the network alone in the same process."""
    overrides, least = NETWORKS[network]

    def measure(found: dict[str, Any], seconds: float) -> tuple[dict[str, Any], bool]:
        run = play(overrides, seconds)
        limit = play(overrides, seconds, ["inference.runtime=pseudo_random"])
        share = run["evaluations_per_s"] / run["raw_evaluations_per_s"]
        shown = f"{run['evaluations_per_s']:,.0f} evals/s", f"{share:.0%}"
        print(f"    raw {run['raw_evaluations_per_s']:,.0f}, players alone {limit['evaluations_per_s']:,.0f}, "
              f"{run['rows_per_batch']:.0f} rows a batch, busy {run['busy_share']:.0%}: {run['runtime']}")
        return {"run": run, "players_alone": limit, "shown": shown}, share >= least

    return measure


def play(overrides: list[str], seconds: float, evaluator: Sequence[str] = ("inference.device=cuda",)) -> dict[str, Any]:
    """`bench selfplay` with one server, by default on the GPU, and as many players as there are other cores."""
    players = max(1, len(os.sched_getaffinity(0)) - 1)
    return run_shusaku(["bench", "selfplay", *overrides, *evaluator, *SERVED, *PROGRAMS, f"actors.count={players}",
                        f"bench.seconds={seconds:g}"])


def learning(found: dict[str, Any], seconds: float) -> tuple[dict[str, Any], bool]:
    """The learner's step beside a bare one."""
    ours = learn(seconds)
    done = subprocess.run([sys.executable, "-m", "benchmarks.speed.gpu", "--bare", "--seconds", str(seconds)],
                          cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    bare = json.loads(done.stdout.splitlines()[-1])
    share = ours["steps_per_s"] / bare["steps_per_s"]
    print(f"    bare {BATCH * bare['steps_per_s']:,.0f} rows/s: {ours['runtime']}")
    return {"ours": ours, "bare": bare,
            "shown": (f"{ours['rows_per_s']:,.0f} rows/s", f"{share:.0%}")}, share >= LEAST_STEP


def over_tcp(found: dict[str, Any], seconds: float) -> tuple[dict[str, Any], bool]:
    """Players as on other machines: busy is the share of the time in which a batch is on the GPU."""
    run = play(NETWORKS[SMALLEST][0], seconds, ["inference.device=cuda", "inference.listen=[tcp]"])
    shown = f"{run['evaluations_per_s']:,.0f} evals/s", f"{run['busy_share']:.0%}"
    return {"run": run, "shown": shown}, run["busy_share"] >= LEAST_BUSY


def learn(seconds: float) -> dict[str, Any]:
    """`bench learner` on the GPU."""
    return run_shusaku(["bench", "learner", *NETWORKS[LARGEST][0], f"learner.batch_size={BATCH}", *PROGRAMS,
                        "learner.device=cuda", f"bench.seconds={seconds:g}"])


def sharing(found: dict[str, Any], seconds: float) -> tuple[dict[str, Any], bool]:
    """Server and learner on one GPU at once, beside each alone; each may take half of the memory.

    The learner counts the steps of the very seconds in which the server is measured.
    """
    alone = found[LARGEST]["run"] if LARGEST in found else play(NETWORKS[LARGEST][0], seconds)
    ours = found["learner's step"]["ours"] if "learner's step" in found else learn(seconds)
    steps = ours["steps_per_s"]
    command = [sys.executable, "-m", "benchmarks.speed.gpu", "--learn", *(["--eager"] if PROGRAMS else [])]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as learner:
        assert learner.stdout is not None
        learner.stdout.readline()  # it learns
        shared = play([*NETWORKS[LARGEST][0], "inference.gpus_per_server=0.5"], seconds)
        answer, _ = learner.communicate()  # the end of its input ends it
    if learner.returncode:
        sys.exit(learner.returncode)
    made = [step for step in json.loads(answer) if shared["begun_at"] <= step[0] <= shared["ended_at"]]
    learned = (made[-1][1] - made[0][1]) / (made[-1][0] - made[0][0]) if len(made) > 1 else 0.0
    shares = (shared["evaluations_per_s"] / alone["evaluations_per_s"], learned / steps)
    slower = shared["batch_p99_ms"] / alone["batch_p99_ms"]
    is_good = sum(shares) >= LEAST_SUM and min(shares) >= LEAST_EACH and slower < MOST_SLOWER
    return {"play": shared, "play_alone": alone, "learn_alone": ours, "steps_per_s": learned, "batch_p99": slower,
            "shown": (f"{shares[0]:.2f} + {shares[1]:.2f}", f"p99 x {slower:.1f}")}, is_good


def sharing_under_mps(found: dict[str, Any], seconds: float) -> tuple[dict[str, Any], bool]:
    """The same where kernels of both processes run side by side."""
    if mps_runs():
        sys.exit(f"MPS runs here already, and {SHARED} was measured under it")
    with mps_daemon():
        return sharing(found, seconds)


@contextmanager
def mps_daemon() -> Iterator[None]:
    """One of our own, which no other process of this machine reaches; it ends with us."""
    with tempfile.TemporaryDirectory(prefix="mps-") as pipes, patch.dict(
            os.environ, {"CUDA_MPS_PIPE_DIRECTORY": pipes, "CUDA_MPS_LOG_DIRECTORY": pipes}):
        started = subprocess.run([MPS_CONTROL, "-d"], stdin=subprocess.DEVNULL, check=False)
        if started.returncode:
            sys.exit(f"{MPS_CONTROL} -d: exit code {started.returncode}")
        try:
            yield
        finally:
            subprocess.run([MPS_CONTROL], input="quit\n", text=True, check=False)


def learn_until_the_input_ends() -> None:
    """Says `ready` once it learns; at the end moments of the monotonic clock, each with the steps made until then."""
    from threading import Thread

    from shusaku.common.mps import yield_to_others

    yield_to_others(0.5)  # as the learner of a run; before torch is loaded
    from shusaku.deploy.bench.learner import learner_and_batch
    from shusaku.deploy.cli.overrides import compose

    learner, batch = learner_and_batch(compose([
        *NETWORKS[LARGEST][0], *PROGRAMS, f"learner.batch_size={BATCH}", "learner.device=cuda", "learner.gpus=0.5"]))
    for _ in range(8):
        learner.step(batch)
    learner.metrics()
    ended = Thread(target=sys.stdin.read, daemon=True)
    ended.start()
    print("ready", flush=True)
    moments: list[tuple[float, int]] = []
    while ended.is_alive():
        for _ in range(4):
            learner.step(batch)
        learner.metrics()  # waits
        moments.append((time.monotonic(), learner.step_count))
    print(json.dumps(moments))


def bare_steps_per_s(seconds: float) -> float:
    """Forward, backward and SGD of the same network, compiled, on a mini-batch that stays on the GPU."""
    import torch
    import torch.nn.functional as F

    from shusaku.common.external.configured_game import configured_game
    from shusaku.common.network.network import Network
    from shusaku.common.network.targets import make_targets
    from shusaku.deploy.cli.overrides import compose

    config = compose(NETWORKS[LARGEST][0])
    game, device = configured_game(config.game), torch.device("cuda")
    network = Network(game.observation_shape, game.num_actions, config.network, make_targets(config.learner))
    network = network.to(device, memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(network.parameters(), 1e-3, momentum=0.9, fused=True)
    planes = torch.randint(0, 2, (BATCH, *game.observation_shape), device=device).float()
    planes = planes.contiguous(memory_format=torch.channels_last)
    policy = torch.softmax(torch.randn(BATCH, game.num_actions, device=device), 1)
    outcome = torch.randint(-1, 2, (BATCH, 1), device=device).float()

    def loss_of() -> torch.Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            answers = network(planes)
            return (F.cross_entropy(answers["policy"].float(), policy)
                    + F.mse_loss(answers["value"].float().view(-1, 1), outcome))

    compiled = torch.compile(loss_of)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        compiled().backward()
        optimizer.step()

    for _ in range(5):
        step()
    torch.cuda.synchronize()
    steps, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        step()
        steps += 1
        if steps % 8 == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    return steps / (time.perf_counter() - begin)


PARTS: dict[str, Measure] = {
    **{network: serving(network) for network in NETWORKS}, "learner's step": learning, SHARED: sharing,
    "over TCP": over_tcp,
    **({f"{SHARED}, by MPS": sharing_under_mps} if shutil.which(MPS_CONTROL) else {}),
}

if __name__ == "__main__":
    main()
