"""How many CPUs a cluster configuration of Ray allows."""

import subprocess
import sys
from pathlib import Path

import pytest

from shusaku.deploy.ray_runtime.autoscaler import configured_cpus, cpus_of

CONFIG = {
    "max_workers": 4, "head_node_type": "head",
    "available_node_types": {
        "head": {"resources": {"CPU": 2}, "max_workers": 0},
        "small": {"resources": {"CPU": 1}, "max_workers": 3},
        "large": {"resources": {"CPU": 16, "GPU": 1}, "max_workers": 2},
    },
}


def test_the_largest_nodes_count_first_up_to_the_number_of_workers() -> None:
    assert cpus_of(CONFIG) == 2 + 2 * 16 + 2 * 1
    assert cpus_of({**CONFIG, "max_workers": 1}) == 2 + 16
    assert cpus_of({}) == 0


@pytest.mark.parametrize(("address", "found"), [("127.0.0.1:1234", 36.0), ("127.0.0.1:4321", 0.0)])
def test_it_is_read_of_the_autoscaler_of_this_cluster(tmp_path: Path, address: str, found: float) -> None:
    config = tmp_path / "cluster.yaml"
    config.write_text(str(CONFIG).replace("'", '"'), encoding="utf-8")
    monitor = tmp_path / "monitor.py"
    monitor.write_text("import time; print('up', flush=True); time.sleep(60)\n", encoding="utf-8")
    with subprocess.Popen([sys.executable, str(monitor), "--gcs-address=127.0.0.1:1234",
                           f"--autoscaling-config={config}"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            assert configured_cpus(address) == found
            config.write_text("- no configuration", encoding="utf-8")
            assert configured_cpus(address) == 0
        finally:
            process.kill()
