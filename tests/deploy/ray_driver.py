"""A RaySession in a process of its own, told what to do from here."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from process_family import all_below, wait_until_gone
from ray_variables import environment_without_ray

ROOT = Path(__file__).resolve().parent.parent.parent

DRIVER = '''
import json, os, signal, sys
from pathlib import Path
import ray  # before its variables are set, as the modules of the actors do
from shusaku.common.config.schema import ClusterConfig
from shusaku.deploy.ray_runtime.session import RaySession

FACTS = ("address dashboard_url is_local token_file own_address num_cpus node_count metrics_port log_directory "
         "how_to_log_in ray_command_prefix").split()

def tell(**what):
    print("ANSWER " + json.dumps(what), flush=True)

interrupts = []
terminate = lambda *_: None
signal.signal(signal.SIGTERM, terminate)
before = dict(os.environ)
lines = []
session = RaySession(ClusterConfig(dashboard=json.loads(sys.argv[1])), Path("unused"), say=lines.append, namespace="n1")
session.start()

@ray.remote
class Worker:
    def where(self):
        return os.getpid(), os.nice(0), [os.environ.get(n) for n in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")]
    def die(self):
        print("the last words", file=sys.stderr, flush=True)
        os._exit(1)

worker = Worker.options(num_cpus=0.1).remote()
signal.signal(signal.SIGINT, lambda *_: interrupts.append(1))
tell(facts={name: getattr(session, name) for name in FACTS}, lines=lines, where=ray.get(worker.where.remote()),
     namespace=ray.get_runtime_context().namespace, keeps_handler=signal.getsignal(signal.SIGTERM) is terminate)
for command in sys.stdin:
    if command == "ask\\n":
        tell(where=ray.get(worker.where.remote(), timeout=20), interrupts=len(interrupts))
    elif command == "crash\\n":
        worker.die.remote()
        tell(died=True)
    elif command == "pretend\\n":
        from ray._common.usage.usage_constants import CLUSTER_METADATA_KEY
        from ray.experimental.internal_kv import _internal_kv_put
        _internal_kv_put(CLUSTER_METADATA_KEY, json.dumps({"ray_version": "1.2.3", "python_version": "3.99.0"}),
                         overwrite=True, namespace="cluster")
        tell(pretends=True)
session.stop()
session.stop()
after = dict(os.environ)
after["PYTHONBREAKPOINT"] = before.get("PYTHONBREAKPOINT")  # Ray's own
tell(changed=[name for name in {*before, *after} if after.get(name) != before.get(name)])
'''


class Driver:
    """A process of its own with a RaySession, told what to do by lines."""

    def __init__(self, directory: Path, dashboard: bool = True, **variables: str) -> None:
        self.output = directory / f"driver-{time.monotonic_ns()}"
        self._process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, json.dumps(dashboard)], cwd=ROOT,
            env={**environment_without_ray("RAY_TMPDIR"), **variables},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.output.open("w"), text=True,
            start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        self.pid = self._process.pid
        self.first = self._answer()

    @property
    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = self.first["facts"]
        return facts

    def tell(self, command: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("ANSWER "):
                answer: dict[str, Any] = json.loads(line.removeprefix("ANSWER "))
                return answer
        raise AssertionError(f"the driver ended: {self.output.read_text()[-3000:]}")

    def finish(self) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.close()
        answer = self._answer()
        assert self._process.wait(30) == 0
        return answer

    def close(self) -> None:
        """Whatever happened before: nothing of it stays."""
        family = all_below(self.pid)
        self._process.kill()
        self._process.wait()
        wait_until_gone(family)
