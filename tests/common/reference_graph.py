"""Slow, plain searches that share nodes, or have several leaves under way: what the C++ core must agree with."""

import numpy as np
from reference_search import F, Node, Puct, expand, walk


class SharedNode(Node):
    """What its edges know of their children is as old as the last walk through this node."""

    def lost(self):
        return self.lost_then if hasattr(self, "lost_then") else super().lost()


def graph_search(position, evaluate, simulations, rule, proves=False):
    """As reference_search.search, but positions of one key and ply are one node.  Returns the root and all nodes.

    Nodes know the visits of their edges only; their values are summed up from their children when a walk has passed.
    """
    root = SharedNode(position.copy())
    value = expand(root, *evaluate(root.position), rule.keep_logits)
    root.account(F(value), False)
    rule.begin(root)
    nodes = {}

    def shared(position):
        return nodes.setdefault((position.transposition_key, position.ply), SharedNode(position))

    for _ in range(simulations):
        if root.proof is not None:
            break
        node, path = walk(root, rule, shared)
        if node.position.is_terminal:
            node.raw_value = F(node.position.outcome)
            node.proof = int(node.position.outcome) if proves else None
        elif node.prior is None:
            expand(node, *evaluate(node.position), rule.keep_logits)
        node.total_visits += 1
        worth = node.raw_value if node.proof is None else F(node.proof)
        node.total_value = F(worth * F(node.total_visits))
        for parent, k in reversed(path):
            parent.visits[k] += 1
            parent.total_visits += 1
            sum_up(parent, proves)
    return root, list(nodes.values())


def sum_up(node, proves):
    total = node.raw_value
    for k in sorted(node.children):
        child, visits = node.children[k], F(node.visits[k])
        if visits == 0 and child.proof is None:
            continue
        if child.proof is None:
            node.value_sum[k] = F(F(-F(child.total_value / F(child.total_visits))) * visits)
        else:
            node.value_sum[k] = F(F(-child.proof) * visits)
        total = F(total + node.value_sum[k])
    node.lost_then = Node.lost(node)
    if proves and node.prove():
        total = F(F(node.proof) * F(node.total_visits))
    node.total_value = total


class WaitingPuct(Puct):
    """Puct where walks wait for their evaluations: each counts as a visit, and as a loss."""

    def scores(self, node, is_root):
        waiting = getattr(node, "waiting", np.zeros(len(node.actions), np.int32)).astype(F)
        mean = F(node.total_value / F(node.total_visits))
        fpu = F(mean - F(self.root_fpu_reduction if is_root else self.fpu_reduction) * np.sqrt(node.visited_prior))
        n = node.visits.astype(F) + waiting
        q = np.where(n < 1, fpu, (node.value_sum - waiting) / np.maximum(n, F(1)))
        root_of_visits = np.sqrt(F(max(1, node.total_visits - 1 + waiting.sum())))
        return q, q + F(F(self.c_puct) * root_of_visits) * node.prior / (F(1) + n)


def waiting_search(position, evaluate, simulations, rule, leaves):
    """Up to `leaves` walks to different leaves before their evaluations come; walks that need none end at once."""
    root = Node(position.copy())
    root.account(expand(root, *evaluate(root.position), rule.keep_logits), False)
    rule.begin(root)
    done = 0
    while done < simulations:
        waiting = []
        while len(waiting) < leaves and done + len(waiting) < simulations:
            node, path = walk(root, rule)
            if node.position.is_terminal:
                back_up(node, path, F(node.position.outcome))
                done += 1
            elif any(node is other for other, _ in waiting):
                break
            else:
                waiting.append((node, path))
                count_waiting(path, 1)
        for node, path in waiting:
            count_waiting(path, -1)
            back_up(node, path, expand(node, *evaluate(node.position), rule.keep_logits))
            done += 1
    return root


def count_waiting(path, change):
    for node, k in path:
        if not hasattr(node, "waiting"):
            node.waiting = np.zeros(len(node.actions), np.int32)
        node.waiting[k] += change


def back_up(node, path, value):
    node.account(value, False)
    for parent, k in reversed(path):
        value = F(-value)
        parent.visits[k] += 1
        parent.value_sum[k] = F(parent.value_sum[k] + value)
        parent.account(value, False)
