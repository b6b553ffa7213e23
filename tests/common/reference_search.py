"""Slow, plain searches of one position: what the C++ core must agree with, visit for visit.

Everything is float32 in the same order of operations, and evaluations are rounded to half floats as they travel.
"""

import math
from dataclasses import dataclass, field

import numpy as np

F = np.float32
ZERO = F(0)
MASK = 2**64 - 1


def half(x):
    return np.float32(np.float16(x))


def mix64(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def combine(a, b):
    return mix64((a + 0x9E3779B97F4A7C15 * (b + 1)) & MASK)


class Random:
    """The generator of common/core/search/random.h."""

    def __init__(self, seed):
        self.state = mix64(seed ^ 0xA0761D6478BD642F)

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        return mix64(self.state)

    def uniform(self):
        return (float(self.next() >> 11) + 0.5) * 2.0**-53

    def gumbel(self):
        return -math.log(-math.log(self.uniform()))

    def normal(self):
        radius = math.sqrt(-2 * math.log(self.uniform()))
        return radius * math.cos(6.283185307179586 * self.uniform())

    def gamma(self, shape):
        if shape < 1:
            return self.gamma(shape + 1) * self.uniform() ** (1 / shape)
        d = shape - 1 / 3
        c = 1 / math.sqrt(9 * d)
        while True:
            x = self.normal()
            v = (1 + c * x) ** 3
            if v > 0 and math.log(self.uniform()) < 0.5 * x * x + d - d * v + d * math.log(v):
                return d * v


def exp(x):
    """exp for x <= 0 as in simd.h: Cephes' polynomial, float32, no fused operations."""
    x = np.maximum(np.asarray(x, F), F(-87))
    n = np.rint(x * F(1.44269504088896341))
    r = (x - n * F(0.693359375)) - n * F(-2.12194440e-4)
    p = np.full_like(x, F(1.9875691500e-4))
    for c in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        p = p * r + F(c)
    p = (p * (r * r) + r) + F(1)
    return np.ldexp(p, n.astype(np.int32)).astype(F)


def lane_sum(x):
    """Sum in the order of eight lanes: blocks first, then ((0+4)+(2+6))+((1+5)+(3+7))."""
    lanes = np.zeros(8, F)
    for i in range(0, len(x), 8):
        block = np.zeros(8, F)
        block[: len(x[i : i + 8])] = x[i : i + 8]
        lanes = lanes + block
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]))


def softmax(logits):
    p = exp(np.minimum(logits - np.max(logits), F(0)))
    return p * (F(1) / lane_sum(p))


@dataclass
class Node:
    position: object
    actions: list = field(default_factory=list)
    prior: np.ndarray | None = None  # probabilities (puct) or logits (gumbel), half floats
    visits: np.ndarray | None = None
    value_sum: np.ndarray | None = None
    children: dict = field(default_factory=dict)
    total_visits: int = 0
    total_value: np.float32 = ZERO
    raw_value: np.float32 = ZERO
    visited_prior: np.float32 = ZERO
    values: list = field(default_factory=list)  # all that were backed up, for who moves here
    proof: int | None = None  # its result under best play, where that is proven, for who moves here

    def results(self):
        """The proven result of every action for who moves here, else None."""
        children = [self.children.get(k) for k in range(len(self.actions))]
        return [None if child is None or child.proof is None else -child.proof for child in children]

    def lost(self):
        return np.array([result == -1 for result in self.results()])

    def kept(self):
        """Actions that may be played and learned: none that is worse than what is proven."""
        results = self.results()
        return np.array([r != -1 if self.proof is None else r == self.proof for r in results])

    def prove(self):
        results = self.results()
        self.proof = 1 if 1 in results else None if None in results else max(results)
        return self.proof is not None

    def account(self, value, is_news):
        """A value, or the result of this node, which then holds for all visits."""
        self.total_visits += 1
        self.values = [value] * self.total_visits if is_news else [*self.values, value]
        self.total_value = F(value * F(self.total_visits)) if is_news else F(self.total_value + value)


def expand(node, logits, value, keep_logits):
    node.actions = list(node.position.legal_actions)
    logits = half(logits[node.actions])
    node.prior = half(logits) if keep_logits else half(softmax(logits))
    node.visits = np.zeros(len(node.actions), np.int32)
    node.value_sum = np.zeros(len(node.actions), F)
    node.raw_value = half(value)
    return node.raw_value


def walk(root, rule, make=Node):
    """From the root to a node without priors or with a proof, and the (node, edge) pairs passed; `make` makes nodes."""
    node, path = root, []
    while node.prior is not None and node.proof is None:
        k = rule.select(node, node is root)
        path.append((node, k))
        if k not in node.children:
            node.visited_prior = F(node.visited_prior + node.prior[k])
            position = node.position.copy()
            position.play(node.actions[k])
            node.children[k] = make(position)
        node = node.children[k]
    return node, path


def search(position, evaluate, simulations, rule, proves=False):
    """`evaluate(position) -> (logits [A], value)`; `rule` has keep_logits, begin(root), select(node, is_root).

    Players alternate.
    """
    root = Node(position.copy())
    value = expand(root, *evaluate(root.position), rule.keep_logits)
    root.account(F(value), False)
    rule.begin(root)
    for _ in range(simulations):
        if root.proof is not None:
            break
        node, path = walk(root, rule)
        is_news = False
        if node.position.is_terminal:
            value = F(node.position.outcome)
            is_news = proves and node.total_visits == 0 and not node.position.is_cut_off
            node.proof = node.position.outcome if is_news else node.proof
        elif node.proof is not None:
            value = F(node.proof)
        else:
            value = expand(node, *evaluate(node.position), rule.keep_logits)
        node.account(value, is_news)
        for parent, k in reversed(path):
            value = F(-value)
            parent.visits[k] += 1
            parent.value_sum[k] = F(value * F(parent.visits[k])) if is_news else F(parent.value_sum[k] + value)
            is_news = is_news and parent.prove()
            value = F(parent.proof) if is_news else value
            parent.account(value, is_news)
    return root


def heaviest(weights, prior):
    return max(range(len(weights)), key=lambda k: (weights[k], prior[k], -k))


@dataclass
class Puct:
    c_puct: float
    fpu_reduction: float
    root_fpu_reduction: float
    c_log: float = 0.0
    c_base: float = 19652.0
    forced: float = 0.0
    prunes: bool = False
    temperature: float = 1.0  # of the root's prior
    noise: tuple | None = None  # fraction, and the alphas as a function of the prior
    seed: int = 0
    keep_logits = False

    def begin(self, root):
        self.raw_prior = root.prior.copy()
        if self.temperature != 1:
            top = float(root.prior.max())
            power = [float(F(math.exp(math.log(float(p) / top) / self.temperature))) for p in root.prior]
            root.prior = np.array([p / sum(power) for p in power], F)
        if self.noise:
            fraction, alphas = self.noise
            random = Random(combine(self.seed, 1))
            draws = [random.gamma(a) for a in alphas(root.prior)]
            noise = np.array([x / sum(draws) for x in draws], F)
            root.prior = (F(1) - F(fraction)) * root.prior + F(fraction) * noise
        root.prior = half(root.prior)

    def scale(self, node):
        n = F(max(1, node.total_visits - 1))
        growth = F(self.c_log) * F(math.log1p(float(n) / float(F(self.c_base))))
        return F((F(self.c_puct) + growth) * np.sqrt(n))

    def scores(self, node, is_root):
        mean = F(node.total_value / F(node.total_visits))
        fpu = F(mean - F(self.root_fpu_reduction if is_root else self.fpu_reduction) * np.sqrt(node.visited_prior))
        n = node.visits.astype(F)
        q = np.where(n < 1, fpu, node.value_sum / np.maximum(n, F(1)))
        return q, q + self.scale(node) * node.prior / (F(1) + n)

    def select(self, node, is_root):
        if is_root and self.forced:
            least = np.sqrt(F(self.forced) * F(node.total_visits - 1) * node.prior)
            lagging = np.flatnonzero((node.visits > 0) & (node.visits < least) & ~node.lost())
            if len(lagging):
                return int(lagging[0])
        return int(np.argmax(np.where(node.lost(), F(-np.inf), self.scores(node, is_root)[1])))

    def weights(self, root):
        """Visits, less those that PUCT with the final values would not have given, and those of what is ruled out."""
        kept = root.kept()
        weights = np.where(kept, root.visits, 0).astype(F)
        if not weights.any():
            return np.where(kept, np.maximum(self.raw_prior, F(1e-8)), F(0))
        if self.prunes:
            best = heaviest(weights, self.raw_prior)
            q, score = self.scores(root, True)
            for k in np.flatnonzero(weights):
                if k != best and score[best] > q[k]:
                    wanted = np.ceil(self.scale(root) * root.prior[k] / (score[best] - q[k]) - F(1))
                    weights[k] = min(weights[k], max(F(0), wanted))
                    if weights[k] < min(1, root.visits[best] / 64):
                        weights[k] = 0
        return weights

    def conclude(self, root):
        weights = self.weights(root)
        return root.actions[heaviest(weights, self.raw_prior)], weights / weights.sum()


def shaped_alphas(total):
    """KataGo's: half of `total` spread evenly, half by the logarithm of the prior above its mean, cut off at 1 %."""

    def alphas(prior):
        logs = np.log(np.minimum(0.01, prior.astype(float)) + 1e-20)
        above = np.maximum(0, logs - logs.mean())
        even = np.full(len(prior), 1 / len(prior))
        return total * ((even + above / above.sum()) / 2 if above.any() else even)

    return alphas


def considered_visits(considered, simulations):
    """mctx/_src/seq_halving.py, get_sequence_of_considered_visits, in our words."""
    if considered <= 1:
        return list(range(simulations))
    phases = math.ceil(math.log2(considered))
    sequence, visits, alive = [], [0] * considered, considered
    while len(sequence) < simulations:
        for _ in range(max(1, simulations // (phases * alive))):
            sequence += visits[:alive]
            visits[:alive] = [v + 1 for v in visits[:alive]]
        alive = max(2, alive // 2)
    return sequence[:simulations]


class Gumbel:
    keep_logits = True

    def __init__(self, seed, simulations, considered, scale, value_scale, maxvisit_init, rescale):
        self.seed, self.simulations, self.considered = seed, simulations, considered
        self.scale, self.value_scale = F(scale), F(value_scale)
        self.maxvisit_init, self.rescale = F(maxvisit_init), rescale

    def begin(self, root):
        random = Random(combine(self.seed, 1))
        self.gumbel = np.array([self.scale * F(random.gumbel()) for _ in root.actions], F)
        self.sequence = considered_visits(min(self.considered, len(root.actions)), self.simulations)

    def improved(self, node):
        prior = np.maximum(softmax(node.prior), F(1e-30))
        n = node.visits.astype(F)
        q = np.where(node.lost(), F(-1), node.value_sum / np.maximum(n, F(1)))
        seen = lane_sum(np.where(n < 1, F(0), prior))
        weighted = F(lane_sum(np.where(n < 1, F(0), prior * q)) / seen) if seen > 0 else F(0)
        total = lane_sum(n)
        mixed = F((node.raw_value + total * weighted) / (total + F(1)))
        q = np.where(n < 1, mixed, q)
        sigma = F((self.maxvisit_init + n.max()) * self.value_scale)
        shift, stretch = F(0), sigma
        if self.rescale:
            shift, stretch = q.min(), F(sigma / max(F(q.max() - q.min()), F(1e-8)))
        logits = node.prior + (q - shift) * stretch
        if node.proof is None:
            logits = np.where(node.lost(), F(-np.inf), logits)
        return logits, softmax(logits)

    def select(self, node, is_root):
        logits, policy = self.improved(node)
        if is_root:
            alive = np.where(node.lost(), -1, node.visits)
            wanted = self.sequence[node.total_visits - 1]
            return self.considered_argmax(logits, alive == (wanted if wanted in alive else alive.max()))
        return int(np.argmax(policy - node.visits.astype(F) / F(max(1, node.total_visits))))

    def considered_argmax(self, logits, considered):
        return int(np.argmax(np.where(considered, self.gumbel + logits, F(-np.inf))))

    def conclude(self, root):
        logits, policy = self.improved(root)
        kept = root.kept()
        most = root.visits[kept].max()
        policy = np.where(kept, policy, F(0))
        return root.actions[self.considered_argmax(logits, kept & (root.visits == most))], policy / policy.sum()


def move_temperature(ply, temperature, half_life, final, plies):
    """KataGo's interpolateEarly (cpp/search/searchhelpers.cpp), and AlphaGo Zero's cut-off; a float32 in the core."""
    if ply >= plies:
        return float(F(final))
    fallen = 0.5 ** (ply / half_life) if half_life else 1.0
    return float(F(float(F(final)) + (float(F(temperature)) - float(F(final))) * fallen))


def move_probabilities(weights, prior, temperature):
    """Of every action, by weights^(1/temperature); at 0 all of it on the heaviest, then on the higher prior."""
    if temperature <= 1e-3:
        best = max(range(len(weights)), key=lambda i: (weights[i], prior[i], -i))
        return np.eye(len(weights))[best]
    powers = (np.asarray(weights, float) / np.max(weights)) ** (1 / temperature)
    return powers / powers.sum()


def drawn(probabilities, seed):
    """The index that the search of this seed draws."""
    return int(np.searchsorted(np.cumsum(probabilities), Random(combine(seed, 2)).uniform()))
