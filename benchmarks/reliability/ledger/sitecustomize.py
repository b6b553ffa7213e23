"""Makes each actor of a soak write down the games that Redis acknowledged: a ledger beside the product's own counters.

Python imports this file by itself in every process that has this folder on PYTHONPATH.  A line is `epoch actor
incarnation sequence ...`, written by one call, so that the kill of a process loses no line that was begun.
"""

import importlib.abc
import importlib.machinery
import os
import sys

FOLDER = os.environ.get("SOAK_LEDGER", "")
MODULE = "shusaku.replay.stream.append"


class LedgerFinder(importlib.abc.MetaPathFinder):
    """Wraps `append` of that one module when it is imported."""

    def find_spec(self, name, path, target=None):
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            module.append = with_ledger(module.append)

        spec.loader.exec_module = exec_module
        return spec


def with_ledger(append):
    def append_and_write(client, keys, identity, games, metrics):
        reply = append(client, keys, identity, games, metrics)
        if games and int(reply.status) == 0:
            line = " ".join(map(str, [*identity, *(game.sequence for game in games)])) + "\n"
            file = os.open(os.path.join(FOLDER, str(os.getpid())), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.write(file, line.encode())
            os.close(file)
        return reply

    return append_and_write


if FOLDER:
    sys.meta_path.insert(0, LedgerFinder())
