"""The advice is the smallest batch that is nearly as fast as the fastest, of the fastest kind."""

from shusaku.deploy.bench.inference import advice


def row(runtime, precision, batch, rate):
    return {"runtime": runtime, "precision": precision, "batch": batch, "positions_per_s": rate,
            "batch_ms": 1000 * batch / rate}


ROWS = [row("openvino", "fp32", 1, 900), row("openvino", "fp32", 64, 1000), row("openvino", "bf16", 1, 1200),
        row("openvino", "bf16", 16, 3700), row("openvino", "bf16", 32, 3900), row("openvino", "bf16", 64, 3850),
        row("openvino", "bf16", 256, 4000), row("torch", "bf16", 8, 3990)]


def test_the_smallest_batch_that_is_enough():
    said = advice(ROWS)
    assert (said["runtime"], said["precision"], said["games_per_actor"]) == ("openvino", "bf16", 32)
    assert said["text"].endswith(
        "3,900 positions/s a core (98% of what batches of 256 reach; an answer takes 8.2 instead of 64 ms)")


def test_what_the_core_computes_is_had_by_auto():
    said = advice([*ROWS, row("core", "int8", 64, 9000)])
    assert (said["runtime"], said["precision"], said["games_per_actor"]) == ("core", "int8", 64)
    assert said["text"].startswith("advice: inference.runtime=auto inference.precision=int8 actors.games_per_actor=64")


def test_one_row_is_the_advice():
    assert advice(ROWS[:1])["text"] == (
        "advice: inference.runtime=openvino inference.precision=fp32 actors.games_per_actor=1, 900 positions/s a core")
