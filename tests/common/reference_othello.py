"""Othello, slowly: a dict of discs, and a walk along every ray.  What the bitboards must agree with."""

RAYS = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1) if down or right]


class Reference:
    """A position; cells are (row, column), players 0 and 1."""

    def __init__(self, size, discs=None, to_play=0):
        middle = size // 2
        self.size = size
        self.discs = dict(discs) if discs is not None else {
            (middle - 1, middle - 1): 1, (middle - 1, middle): 0, (middle, middle - 1): 0, (middle, middle): 1}
        self.to_play = to_play

    def flipped(self, cell, player):
        """The discs that a disc of `player` on `cell` would turn over."""
        if cell in self.discs:
            return []
        turned = []
        for down, right in RAYS:
            run = []
            row, column = cell[0] + down, cell[1] + right
            while self.discs.get((row, column)) == 1 - player:
                run.append((row, column))
                row, column = row + down, column + right
            if self.discs.get((row, column)) == player:
                turned += run
        return turned

    def placements(self, player):
        cells = [(row, column) for row in range(self.size) for column in range(self.size)]
        return [cell for cell in cells if self.flipped(cell, player)]

    @property
    def legal_actions(self):
        """Ascending; the last action of all is a pass, legal where only the opponent can place a disc."""
        cells = self.placements(self.to_play)
        if cells:
            return [row * self.size + column for row, column in cells]
        return [self.size**2] if self.placements(1 - self.to_play) else []

    def play(self, action):
        if action != self.size**2:
            cell = divmod(action, self.size)
            for disc in [cell, *self.flipped(cell, self.to_play)]:
                self.discs[disc] = self.to_play
        self.to_play = 1 - self.to_play

    @property
    def lead(self):
        """Discs of the player to move less those of the opponent."""
        mine = sum(owner == self.to_play for owner in self.discs.values())
        return 2 * mine - len(self.discs)

    def text(self):
        """The position as Game.position reads it."""
        symbols = {None: ".", 0: "X", 1: "O"}
        rows = ("".join(symbols[self.discs.get((row, column))] for column in range(self.size))
                for row in range(self.size))
        return "/".join(rows) + " " + "XO"[self.to_play]


def count(position, depth):
    """Leaves of the game tree at `depth`."""
    if depth == 0:
        return 1
    total = 0
    for action in position.legal_actions:
        after = Reference(position.size, position.discs, position.to_play)
        after.play(action)
        total += count(after, depth - 1)
    return total
