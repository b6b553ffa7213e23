"""Gomoku: five stones in a row win.  The example of docs/adding-a-game.md."""

from typing import NamedTuple

import numpy as np


class State(NamedTuple):
    """Never changed; `play` makes a new one."""

    stones: bytes  # [size * size] b"X" of player 0, b"O" of player 1, b"." none
    ply: int
    is_won: bool  # by the player who moved last


class Gomoku:
    """The rules; parameters of the constructor are game.<parameter>= on the command line."""

    def __init__(self, size: int = 9, row: int = 5) -> None:
        if not 1 < row <= size <= 19:
            raise ValueError("row must lie in [2, size], and size must be at most 19")
        self.size, self.row = size, row
        self.num_actions = size * size
        self.max_plies = size * size
        self.observation_shape = (3, size, size)  # own stones, the other's, whose turn
        self.uniform_planes = 1  # the last of them holds one number

    def start(self) -> State:
        return State(b"." * self.num_actions, 0, False)

    def to_play(self, state: State) -> int:
        return state.ply % 2

    def is_terminal(self, state: State) -> bool:
        return state.is_won or state.ply == self.num_actions

    def outcome(self, state: State) -> int:
        return -1 if state.is_won else 0  # for the player to move, who has just lost

    def legal_actions(self, state: State) -> list[int]:
        return [] if self.is_terminal(state) else [cell for cell, stone in enumerate(state.stones) if stone == ord(".")]

    def play(self, state: State, action: int) -> State:
        stones = bytearray(state.stones)
        stones[action] = b"XO"[state.ply % 2]
        return State(bytes(stones), state.ply + 1, self.has_row(stones, action))

    def has_row(self, stones: bytearray, cell: int) -> bool:
        y, x, n = cell // self.size, cell % self.size, self.size
        for dy, dx in ((0, 1), (1, 0), (1, 1), (1, -1)):
            count = 1
            for sign in (1, -1):
                v, u = y + sign * dy, x + sign * dx
                while 0 <= v < n and 0 <= u < n and stones[v * n + u] == stones[cell]:
                    count, v, u = count + 1, v + sign * dy, u + sign * dx
            if count >= self.row:
                return True
        return False

    def observation(self, state: State) -> np.ndarray:
        board = np.frombuffer(state.stones, np.uint8).reshape(self.size, self.size)
        own, other = b"XO"[state.ply % 2], b"OX"[state.ply % 2]
        return np.stack([board == own, board == other, np.full_like(board, state.ply % 2)])

    def symmetries(self) -> list[np.ndarray]:
        grid = np.arange(self.num_actions).reshape(self.size, self.size)
        return [np.rot90(g, turns).reshape(-1) for g in (grid, grid.T) for turns in range(4)]

    def to_move(self, state: State, action: int) -> str:
        return f"{chr(ord('a') + action % self.size)}{self.size - action // self.size}"

    def render(self, state: State) -> str:
        rows = state.stones.decode()
        return "".join(" ".join(rows[i : i + self.size]) + "\n" for i in range(0, len(rows), self.size))
