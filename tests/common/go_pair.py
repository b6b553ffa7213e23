"""The C++ game and the reference side by side: one plays, both must say the same."""

import random
import sys
from collections import Counter
from pathlib import Path

import numpy as np

from shusaku.common._core import Game

sys.path.insert(0, str(Path(__file__).parent))
from reference_go import SYMBOLS, WHITE, ReferenceGo, action_of, diagram_of, place, vertex

RULES = ("chinese", "tromp_taylor")
SUPERKOS = ("positional", "situational", "simple")
NUMBERS = "abcdefghijklmnopqrs"


def grid_of(size, board, to_play):
    """The board in the grid's notation."""
    return diagram_of(size, board).replace("\n", "/") + " " + SYMBOLS[to_play + 1]


def sgf_of(size, board, to_play):
    """The board as the set-up properties of an SGF root."""
    lists = ["", "", ""]
    for point, colour in enumerate(board):
        lists[colour] += f"[{NUMBERS[point % size]}{NUMBERS[point // size]}]"
    text = f"(;GM[1]FF[4]SZ[{size}]"
    text += f"AB{lists[1]}" if lists[1] else ""
    text += f"AW{lists[2]}" if lists[2] else ""
    return text + f"PL[{'BW'[to_play]}])"


class Disagreement(AssertionError):
    """What the two say of the same position."""


class Pair:
    """One game in both.  `board` sets both up; `notation` says in which text the C++ game gets it."""

    def __init__(self, size, board=None, to_play=0, notation=grid_of, note="", **params):
        self.size, self.params, self.note = size, params, note
        self.setup = None if board is None else notation(size, board, to_play)
        self.game = Game("go", {"size": size, **params})
        self.position = self.game.start() if board is None else self.game.position(self.setup)
        settings = {key: value for key, value in self.game.params.items() if key not in ("handicap", "size")}
        settings["max_plies"] = self.game.max_plies
        self.reference = ReferenceGo(size, board=board, to_play=to_play, **settings)

    def play(self, *moves):
        """Moves by their names or numbers, each compared."""
        for move in moves:
            action = action_of(self.size, move) if isinstance(move, str) else move
            self.position.play(action)
            self.reference.play(action)
            self.check()
        return self

    def same(self, what, ours, theirs):
        if ours != theirs:
            moves = " ".join(vertex(self.size, action) for action in self.reference.moves)
            raise Disagreement(
                f"{what}: C++ {ours!r}, reference {theirs!r}\n{self.note}\nGame('go', {self.game.params})\n"
                f"set up {self.setup!r}, then {moves}\n{diagram_of(self.size, self.reference.board)}")

    def check(self):
        """Whose turn, legal actions, planes, whether it is over."""
        ours, theirs = self.position, self.reference
        self.same("to_play", ours.to_play, theirs.to_play)
        self.same("ply", ours.ply, theirs.ply)
        self.same("is_terminal", ours.is_terminal, theirs.is_terminal)
        legal, said = theirs.legal_actions, ours.legal_actions
        if legal != said:
            self.same("legal_actions", [self.name(a) for a in said], [self.name(a) for a in legal])
        self.check_planes(0)
        if theirs.is_terminal:
            self.check_end()
        return legal

    def check_planes(self, symmetry):
        planes = self.reference.observation(symmetry)
        seen = self.position.observation(symmetry)
        if not np.array_equal(seen, planes):
            wrong = sorted(set(np.nonzero(seen != planes)[0].tolist()))
            self.same(f"planes {wrong} through symmetry {symmetry}", seen[wrong].tolist(), planes[wrong].tolist())

    def check_end(self):
        ours, theirs = self.position, self.reference
        self.same("is_cut_off", ours.is_cut_off, theirs.is_cut_off)
        self.same("score", ours.score, theirs.score)
        self.same("outcome", ours.outcome, theirs.outcome)
        self.check_ownership()

    def check_ownership(self):
        self.same("ownership", self.position.ownership.tolist(), self.reference.ownership.tolist())

    def check_refusals(self):
        """Every action that is not legal is refused and changes nothing."""
        ours = self.position
        before = (str(ours), ours.evaluation_key, ours.transposition_key, ours.legal_actions, ours.ply)
        for action in {-1, self.game.num_actions, *range(self.game.num_actions)} - set(before[3]):
            try:
                ours.play(action)
            except ValueError:
                continue
            self.same(f"play of the illegal {action}", "played", "refused")
        after = (str(ours), ours.evaluation_key, ours.transposition_key, ours.legal_actions, ours.ply)
        self.same("the position after illegal actions", after, before)

    def check_names(self):
        for action in self.position.legal_actions:
            self.same("move", self.position.to_move(action), self.name(action))
            self.same("action", self.position.from_move(self.name(action)), action)

    def check_copy(self):
        """Goes on with a copy; what happens to it leaves the one it was made of alone."""
        left = self.position
        self.position = left.copy()
        kept = (str(left), left.evaluation_key, left.legal_actions, left.observation().tobytes())
        legal = self.position.legal_actions
        if legal:
            other = left.copy()
            other.play(legal[0])
        self.same("the position whose copy played on",
                  (str(left), left.evaluation_key, left.legal_actions, left.observation().tobytes()), kept)

    def name(self, action):
        return vertex(self.size, action)


def play_out(pair, dice, counts, thorough=1.0):
    """A random game to its end, compared at every ply, biased towards captures, kos and suicides.

    `thorough` is how likely the expensive comparisons are.  Adds to `counts` the plies and what each superko did.
    """
    legal = pair.check()
    while legal:
        reference = pair.reference
        if dice.random() < 0.2 * thorough:
            pair.check_planes(dice.randrange(8))
            pair.check_ownership()
        if dice.random() < 0.02 * thorough:
            pair.check_refusals()
            pair.check_names()
            pair.check_copy()
        action = choose(reference, legal, dice, counts)
        pair.position.play(action)
        reference.play(action)
        counts["plies"] += 1
        legal = pair.check()
    counts["games"] += 1
    counts["cut off"] += reference.is_cut_off


def choose(reference, legal, dice, counts):
    """One of the legal actions; counts what was forbidden on the way."""
    tries = reference.tries()
    captures, suicides = [], []
    for action, (after, captured, suicide, verdict) in tries.items():
        if verdict == "ko":
            counts[f"{reference.superko} forbade"] += 1
            if suicide:
                counts[f"{reference.superko} forbade a suicide"] += 1
            elif not reference.repeats(after, "simple"):
                counts[f"{reference.superko} forbade more than simple ko"] += 1
        elif not verdict:
            if after in reference.positions:
                counts[f"{reference.superko} allowed a board that had stood"] += 1
            if captured:
                captures.append(action)
            if suicide:
                suicides.append(action)
    roll = dice.random()
    if captures and roll < 0.4:
        return dice.choice(captures)
    if suicides and roll < 0.5:
        counts["suicides played"] += 1
        return dice.choice(suicides)
    if len(legal) > 1 and roll < 0.97:
        return dice.choice(legal[:-1])
    return dice.choice(legal)


def random_pair(seed, sizes):
    """A game whose rules, planes, ply limit and start all come from the seed; its dice."""
    dice = random.Random(seed)
    size = dice.choice(sizes)
    params = {
        "rules": dice.choice(RULES),
        "superko": dice.choice(SUPERKOS),
        "planes": dice.choice(["zero", "komi", "tutorial"]),
        "komi": dice.choice([0.0, 0.5, 2.0, 3.5, -3.0, -0.5] if size == 2 else [0.0, 0.5, 5.5, 7.0, 7.5, -3.0]),
        "max_plies": dice.choice([0, dice.randint(1, 40), 60, most_plies(size)]),
    }
    board, to_play = None, 0
    if dice.random() < 0.3:
        board, to_play = random_board(size, dice), dice.randrange(2)
    note = f"random_pair(seed={seed}, sizes={sizes})"
    return Pair(size, board, to_play, dice.choice([grid_of, sgf_of]), note, **params), dice


def most_plies(size):
    return 243 if size <= 9 else 507 if size <= 13 else 1083


def random_board(size, dice):
    """A board reached by random plays without a repetition in mind, so every chain on it has a liberty."""
    board = bytes(size * size)
    for _ in range(dice.randint(0, 2 * size * size)):
        point = dice.randrange(size * size)
        if not board[point]:
            after, _, suicide = place(size, board, point, dice.randint(1, WHITE))
            if not suicide:
                board = after
    return board


def compare(seeds, sizes, thorough=1.0):
    """Random games of these seeds; what happened in them."""
    counts = Counter()
    for seed in seeds:
        pair, dice = random_pair(seed, sizes)
        play_out(pair, dice, counts, thorough)
    return counts
