"""Slow, plain Go: what the C++ game must agree with, ply for ply.

A board is `bytes` of size * size points, row 0 at the top, each EMPTY, BLACK or WHITE.  A play is tried on a copy: put
the stone down, flood-fill its neighbours, take off what has no liberty.  Repetition is looked up among whole boards.
"""

import string
from functools import cache

import numpy as np

EMPTY, BLACK, WHITE = 0, 1, 2
HISTORY = 8  # boards in the planes of AlphaGo Zero
SYMBOLS = ".XO"
COLUMNS = string.ascii_uppercase.replace("I", "")


@cache
def neighbours(size):
    """Of every point, the points beside it."""
    found = []
    for row in range(size):
        for column in range(size):
            beside = [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
            found.append(tuple(r * size + c for r, c in beside if 0 <= r < size and 0 <= c < size))
    return tuple(found)


def chain_without_liberty(board, point, beside):
    """The stones connected to the one on `point`; an empty list when any of them touches an empty point."""
    colour, chain, seen = board[point], [point], {point}
    for stone in chain:  # grows while it is walked
        for n in beside[stone]:
            if board[n] == EMPTY:
                return []
            if board[n] == colour and n not in seen:
                seen.add(n)
                chain.append(n)
    return chain


def place(size, board, point, colour):
    """The board after `colour` plays on an empty point: (board, stones captured, own stones taken off)."""
    beside, after, captured = neighbours(size), bytearray(board), 0
    after[point] = colour
    for n in beside[point]:
        if after[n] == 3 - colour:
            dead = chain_without_liberty(after, n, beside)
            captured += len(dead)
            for stone in dead:
                after[stone] = EMPTY
    suicide = chain_without_liberty(after, point, beside)
    for stone in suicide:
        after[stone] = EMPTY
    return bytes(after), captured, len(suicide)


def owners(size, board):
    """Of every point, whose it is: the stone's colour, or the one colour that its empty region reaches, else EMPTY."""
    beside, owner, seen = neighbours(size), bytearray(board), set()
    for point in range(size * size):
        if board[point] != EMPTY or point in seen:
            continue
        region, reached = [point], set()
        seen.add(point)
        for p in region:  # grows while it is walked
            for n in beside[p]:
                if board[n] != EMPTY:
                    reached.add(board[n])
                elif n not in seen:
                    seen.add(n)
                    region.append(n)
        if len(reached) == 1:
            for p in region:
                owner[p] = min(reached)
    return bytes(owner)


def vertex(size, action):
    """GTP's name of an action: letters without I, row 1 at the bottom."""
    if action == size * size:
        return "pass"
    row, column = divmod(action, size)
    return f"{COLUMNS[column]}{size - row}"


def action_of(size, name):
    if name.lower() == "pass":
        return size * size
    return (size - int(name[1:])) * size + COLUMNS.index(name[0].upper())


def board_of(diagram):
    """(size, board) of rows of X, O and ., from the top."""
    rows = diagram.split()
    return len(rows), bytes(SYMBOLS.index(symbol) for row in rows for symbol in row)


def diagram_of(size, board):
    return "\n".join("".join(SYMBOLS[c] for c in board[row * size:(row + 1) * size]) for row in range(size))


def view(planes, symmetry):
    """Planes [C, H, W] seen through a symmetry: bit 0 mirrors left-right, bit 1 top-bottom, bit 2 transposes last."""
    if symmetry & 1:
        planes = planes[:, :, ::-1]
    if symmetry & 2:
        planes = planes[:, ::-1, :]
    if symmetry & 4:
        planes = planes.transpose(0, 2, 1)
    return planes


class ReferenceGo:
    """A game in progress.  Players are 0 (black) and 1 (white); a player's colour is their number plus one."""

    def __init__(self, size, komi=7.5, rules="chinese", superko="positional", max_plies=0, planes="zero",
                 board=None, to_play=0):
        self.size, self.komi, self.planes = size, komi, planes
        self.suicide_allowed = {"chinese": False, "tromp_taylor": True}[rules]
        self.superko = superko
        self.max_plies = max_plies or 2 * size * size
        self.pass_action = size * size
        self.to_play = to_play
        self.boards = [bytes(size * size) if board is None else board]  # at the start and after every ply
        self.moves = []
        self.tried = None  # what tries() found for the current board
        self.positions = {self.board}  # what positional superko remembers
        self.situations = {(self.board, self.to_play)}  # and situational, with who was to move

    def copy(self):
        other = object.__new__(ReferenceGo)
        other.__dict__.update(self.__dict__)
        other.boards, other.moves = list(self.boards), list(self.moves)
        other.positions, other.situations = set(self.positions), set(self.situations)
        return other

    @property
    def board(self):
        return self.boards[-1]

    @property
    def ply(self):
        return len(self.moves)

    @property
    def ended_by_passes(self):
        return self.moves[-2:] == [self.pass_action] * 2

    @property
    def is_terminal(self):
        return self.ended_by_passes or self.ply >= self.max_plies

    @property
    def is_cut_off(self):
        return self.is_terminal and not self.ended_by_passes

    def repeats(self, after, superko):
        """Whether `superko` forbids a play that leaves this board."""
        if superko == "positional":
            return after in self.positions
        if superko == "situational":
            return (after, 1 - self.to_play) in self.situations
        assert superko == "simple"
        return len(self.boards) >= 2 and after == self.boards[-2]

    def tries(self):
        """Of every play on an empty point: (board after it, stones captured, own stones lost, verdict).

        The verdict is "" where the play is legal, else "suicide" or "ko".
        """
        if self.tried is None:
            self.tried = {point: self.attempt(point) for point, colour in enumerate(self.board) if colour == EMPTY}
        return self.tried

    def attempt(self, point):
        after, captured, suicide = place(self.size, self.board, point, self.to_play + 1)
        if suicide and not self.suicide_allowed:
            return after, captured, suicide, "suicide"
        return after, captured, suicide, "ko" if self.repeats(after, self.superko) else ""

    @property
    def legal_actions(self):
        if self.is_terminal:
            return []
        return [point for point, (*_, verdict) in self.tries().items() if not verdict] + [self.pass_action]

    def play(self, action):
        assert not self.is_terminal, "the game is over"
        after = self.board
        if action != self.pass_action:
            assert self.board[action] == EMPTY, f"{vertex(self.size, action)} is occupied"
            after, _, _, verdict = self.attempt(action)
            assert not verdict, f"{vertex(self.size, action)} is illegal: {verdict}"
        self.to_play = 1 - self.to_play
        self.tried = None
        self.moves.append(action)
        self.boards.append(after)
        self.positions.add(after)
        self.situations.add((after, self.to_play))

    @property
    def ownership(self):
        """[size, size] 1 the player to move, -1 the other one, 0 nobody."""
        owner = np.frombuffer(owners(self.size, self.board), np.uint8).reshape(self.size, self.size)
        return (owner == self.to_play + 1).astype(np.int8) - (owner == 2 - self.to_play).astype(np.int8)

    @property
    def score(self):
        """Area with komi for white, for the player to move."""
        owner = owners(self.size, self.board)
        black = owner.count(BLACK) - owner.count(WHITE) - self.komi
        return -black if self.to_play else black

    @property
    def outcome(self):
        return (self.score > 0) - (self.score < 0)

    def observation(self, symmetry=0):
        """[C, size, size] of 0 and 1, but for the komi."""
        planes = self.tutorial_planes() if self.planes == "tutorial" else self.zero_planes()
        if self.planes == "komi":  # as points for the player to move, KataGo's unit of 20
            planes = [*planes, np.full((self.size, self.size), (self.komi if self.to_play else -self.komi) / 20)]
        return view(np.array(planes, np.float32), symmetry)

    def zero_planes(self):
        nothing = bytes(self.size * self.size)
        boards = (self.boards[::-1] + [nothing] * HISTORY)[:HISTORY]
        stones = np.frombuffer(b"".join(boards), np.uint8).reshape(HISTORY, self.size, self.size)
        return [*(stones == self.to_play + 1), *(stones == 2 - self.to_play), self.colour_plane()]

    def tutorial_planes(self):
        stones = np.frombuffer(self.board, np.uint8).reshape(self.size, self.size)
        own, theirs, empty = stones == self.to_play + 1, stones == 2 - self.to_play, stones == EMPTY
        last, before = self.points(self.moves[-1:]), self.points(self.moves[-2:-1])
        return [own, theirs, empty, last, before, self.points(self.legal_actions), self.colour_plane()]

    def points(self, actions):
        """A plane with ones at these actions; a pass has no point."""
        plane = np.zeros(self.size * self.size, np.float32)
        for action in actions:
            if action != self.pass_action:
                plane[action] = 1
        return plane.reshape(self.size, self.size)

    def colour_plane(self):
        return np.full((self.size, self.size), 1 - self.to_play, np.float32)

    def future(self):
        """All that the rest of the game depends on, to be compared."""
        remembered = {"positional": self.positions, "situational": self.situations, "simple": self.boards[-2:-1]}
        passed = self.moves[-1:] == [self.pass_action]
        return self.board, self.to_play, self.ply, passed, self.is_terminal, frozenset(remembered[self.superko])


def perft(position, depth):
    """Sequences of `depth` legal actions."""
    if depth == 0:
        return 1
    legal = position.legal_actions
    if depth == 1:
        return len(legal)
    total = 0
    for action in legal:
        after = position.copy()
        after.play(action)
        total += perft(after, depth - 1)
    return total
