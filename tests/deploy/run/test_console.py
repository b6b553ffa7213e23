"""The block fits its terminal, and plain lines keep their distance."""

import io

import pytest
from rich.console import Console as Terminal

from shusaku.deploy.run.console import Console, Status, Waiting, block, clock, plain_line, sparkline


def full_status() -> Status:
    return Status(
        title="connect_four", run_dir="runs/connect_four", seconds=204, minutes=20, activity="playing",
        waiting=Waiting("rows before the first step", 1240, 4000, 230.0), games=1_234_567, games_per_hour=123_400,
        rows_per_second=4_210, searches_per_second=880, evaluations_per_second=41_230, cache_hit_rate=0.34,
        step=1_240, version=12, steps_per_second=61.2, learning_rate=1e-3, losses={"policy": 1.234, "value": 0.456},
        window_rows=400_120, window_size=520_000, rows_seen=1_140_120, samples_per_position=1.98,
        strength=[(60, 0.5), (120, 0.6), (180, 0.71)],
        strength_label="optimal moves with 64 simulations", quarantined=2,
        elo=413.4, elo_low=301.2, elo_high=540.8, rated_version=11, elo_curve=[(60, 10.0), (180, 413.4)],
        runtimes=["openvino 2026.4.1, fp32 (this CPU does not compute in bf16)"],
        learner_runtime="torch 2.13.0+cpu on cpu, fp32; 3x3 convolutions: amx",
        time_shares={"select": 0.04, "encode": 0.021, "network": 0.9, "expand": 0.03, "record": 0.001, "wait": 0.0},
    )


def drawn(status: Status, width: int) -> str:
    file = io.StringIO()
    Terminal(file=file, width=width, force_terminal=False).print(block(status))
    return file.getvalue()


@pytest.mark.parametrize("width", [70, 80, 120, 200])
def test_the_block_shows_everything_at_every_width(width: int) -> None:
    text = drawn(full_status(), width)
    assert all(len(line) <= width for line in text.splitlines())
    assert "…" not in text
    for figure in ("123,400 games/h", "4,210 rows/s", "880 searches/s", "41,230 evaluations/s", "34% cache hits",
                   "61.2 steps/s", "1.234 policy loss", "0.456 value loss", "400,120 of 520,000 rows in the window",
                   "1.98 samples per position", "0.710 optimal moves", "3:24 of 20:00", "16:36 left",
                   "2 records in quarantine", "1,240 of 4,000 rows", "runs/connect_four",
                   "413 (301 to 541), version 11; random mover = 0",
                   "90% network", "4% select", "0% wait", "openvino 2026.4.1, fp32", "3x3 convolutions: amx"):
        assert figure in text, figure


def test_a_run_that_just_began_can_be_drawn() -> None:
    text = drawn(Status("tic_tac_toe", "runs/x"), 80)
    assert "starting" in text
    assert "not measured yet" in text
    assert "trouble" not in text
    assert "its time" not in text


def test_what_it_waits_for_says_until_when() -> None:
    assert str(Waiting("rows", 1240, 4000, 230)) == "1,240 of 4,000 rows, about 0:12 to go"
    assert str(Waiting("rows", 1240, 4000)) == "1,240 of 4,000 rows"
    assert str(Waiting("rows", 4000, 4000, 230)) == "4,000 of 4,000 rows"


def test_plain_lines_come_every_ten_seconds_and_at_the_end() -> None:
    now, file = 0.0, io.StringIO()
    with Console(Terminal(file=file), plain_seconds=10, now=lambda: now) as console:
        for second in range(26):
            now = float(second)
            console.show(Status("x", "runs/x", seconds=second, minutes=1))
        console.log("a note")
    lines = file.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["0:00", "0:10", "0:20", "a", "0:25"]


def test_a_plain_line_is_one_line_however_long() -> None:
    file = io.StringIO()
    with Console(Terminal(file=file, width=80)) as console:
        console.show(full_status())
    assert file.getvalue() == plain_line(full_status()) + "\n"
    assert "step 1,240 | 61.2 steps/s" in file.getvalue()
    assert " | Elo 413 (301 to 541) | " in file.getvalue()


def test_a_terminal_gets_the_block_in_place() -> None:
    file = io.StringIO()
    with Console(Terminal(file=file, width=100, force_terminal=True)) as console:
        console.show(full_status())
    assert "\x1b[" in file.getvalue()
    assert "games/h" in file.getvalue()


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (75.4, "1:15"), (3675, "1:01:15")])
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_sparkline_spans_its_values() -> None:
    assert sparkline([0, 1]) == "▁█"
    assert sparkline([2, 2]) == "▁▁"
    assert sparkline(range(100), width=8) == "▁▂▃▄▅▆▇█"
    assert sparkline([]) == ""
