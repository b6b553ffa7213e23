"""Other people's Go, each behind the actions of ours: GNU Go over GTP, OpenSpiel, sgfmill."""

import subprocess
import sys
from pathlib import Path

import pyspiel
from sgfmill import ascii_boards
from sgfmill.boards import Board

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))
from oracles import engine
from reference_go import BLACK, EMPTY, WHITE, action_of, vertex

COLOURS = ("black", "white")
MOST_MOVES = 480  # GNU Go remembers 500 and then forgets the oldest: no superko is right after that
RULES = {"chinese": "--forbid-suicide", "tromp_taylor": "--allow-suicide"}  # but never of a single stone
SUPERKO = {"simple": "--simple-ko", "positional": "--positional-superko", "situational": "--situational-superko"}


class GnuGo:
    """GNU Go as a judge of legality and area.  A context manager: the process ends with it."""

    def __init__(self, size, komi=7.5, rules="chinese", superko="simple"):
        self.size = size
        options = [RULES[rules], SUPERKO[superko]]
        self.process = subprocess.Popen([engine("gnugo"), "--mode", "gtp", "--chinese-rules", "--level", "1", *options],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.ask(f"boardsize {size}")
        self.ask(f"komi {komi}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()

    def ask(self, command):
        """The answer to one command of the Go Text Protocol."""
        self.process.stdin.write(command + "\n")
        lines = []
        while not lines or lines[-1].strip():
            line = self.process.stdout.readline()
            assert line, f"gnugo ended at {command!r}"
            if line.strip() or lines:
                lines.append(line)
        answer = "".join(lines).strip()
        assert answer.startswith("="), f"{command!r}: {answer}"
        return answer[1:].strip()

    def clear(self):
        self.ask("clear_board")

    def play(self, player, action):
        self.ask(f"play {COLOURS[player]} {vertex(self.size, action)}")

    def legal_actions(self, player):
        """Ascending; a pass is always one of them."""
        points = [action_of(self.size, name) for name in self.ask(f"all_legal {COLOURS[player]}").split()]
        return [*sorted(points), self.size * self.size]

    def score(self):
        """For black, as final_score says: it takes off what it holds to be dead."""
        said = self.ask("final_score")
        return 0.0 if said == "0" else float(said[2:]) * (1 if said[0] == "B" else -1)


class OpenSpielGo:
    """OpenSpiel's go: simple ko, no suicide, and over, as a draw, as soon as a whole board repeats after a capture."""

    def __init__(self, size, komi=7.5):
        self.size = size
        self.game = pyspiel.load_game("go", {"board_size": size, "komi": komi, "max_game_length": 1200})
        self.clear()

    def clear(self):
        self.state = self.game.new_initial_state()

    def play(self, action):
        self.state.apply_action(self.translated(action))

    def translated(self, action):
        """Its rows count from the bottom."""
        row, column = divmod(action, self.size)
        return action if row == self.size else (self.size - 1 - row) * self.size + column

    @property
    def is_over(self):
        return self.state.is_terminal()

    def ends_after(self, action):
        """Whether the game is over after this play: it repeats."""
        return self.state.child(self.translated(action)).is_terminal()

    @property
    def legal_actions(self):
        return sorted(self.translated(a) for a in self.state.legal_actions())

    @property
    def winner(self):
        """1 black, -1 white, 0 nobody."""
        return int(self.state.returns()[0])


def sgfmill_board(size, board):
    """sgfmill's board of ours."""
    other = Board(size)
    names = {BLACK: "b", WHITE: "w"}
    other.apply_setup(*([(size - 1 - p // size, p % size) for p in range(size * size) if board[p] == colour]
                        for colour in (BLACK, WHITE, EMPTY)))
    assert all(other.get(size - 1 - p // size, p % size) == names.get(board[p]) for p in range(size * size)), \
        ascii_boards.render_board(other)
    return other


def fixed_handicap(size, stones):
    """Vertices where GNU Go puts its handicap stones."""
    with GnuGo(size) as gnugo:
        return sorted(action_of(size, name) for name in gnugo.ask(f"fixed_handicap {stones}").split())
