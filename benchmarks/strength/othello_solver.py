"""Exact results of Othello 6x6, from othello_solver.cpp, which has rules of its own; needs g++."""

import subprocess
from collections.abc import Sequence
from pathlib import Path


def compiled(folder: Path) -> Path:
    """The solver, built there."""
    solver, source = folder / "solver", Path(__file__).with_name("othello_solver.cpp")
    subprocess.run(["g++", "-std=c++20", "-O3", "-march=native", str(source), "-o", str(solver)], check=True)
    return solver


def solve_boards(solver: Path, boards: Sequence[str]) -> list[int]:
    """Results under best play for the player to move, -1, 0 or 1, of boards of 36 cells: X (its own), O or `.`."""
    asked = "".join(f"{number} {board}\n" for number, board in enumerate(boards))
    said = subprocess.run([str(solver)], input=asked, capture_output=True, text=True, check=True).stdout
    return [int(line.split()[1]) for line in said.splitlines()]
