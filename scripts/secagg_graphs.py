"""The second eigenvalue of many neighbour graphs of secure aggregation, drawn in Python from docs/internals/secure-aggregation.md alone.

    python3 scripts/secagg_graphs.py [--graphs 1000] [--members 500] [--neighbours 106]

Needs NumPy and cryptography. Prints the largest and the mean of |second eigenvalue|, and by how much a ring's is larger. Fails where one
is above the bound by which clients refuse a graph.
"""
import argparse
import hashlib
import math

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes


class Draws:
    """Uniform numbers of a context's graph."""

    def __init__(self, context):
        key = hashlib.sha256(b"rivulet secagg 1 graph" + context).digest()
        self.stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
        self.words = iter(())

    def below(self, bound):
        most = (1 << 32) // bound * bound
        while True:
            word = next(self.words, None)
            if word is None:
                self.words = iter(np.frombuffer(self.stream.update(bytes(1 << 16)), "<u4").tolist())
            elif word < most:
                return word % bound


def draw_graph(context, members, neighbours):
    """The set of unordered pairs that are edges."""
    draws, edges = Draws(context), []
    for _ in range(neighbours // 2):
        order = list(range(members))
        for i in range(members - 1, 0, -1):
            j = draws.below(i + 1)
            order[i], order[j] = order[j], order[i]
        edges += [(order[i], order[(i + 1) % members]) for i in range(members)]
    present, doubles = set(), []
    for e, (a, b) in enumerate(edges):
        pair = (min(a, b), max(a, b))
        if pair in present:
            doubles.append(e)
        present.add(pair)
    marked = set(doubles)
    for e in doubles:
        a, b = edges[e]
        while e in marked:
            f = draws.below(len(edges))
            if f in marked:
                continue
            c, d = edges[f]
            if a == c or b == d:
                continue
            first, second = (min(a, c), max(a, c)), (min(b, d), max(b, d))
            if first == second or first in present or second in present:
                continue
            present -= {(min(c, d), max(c, d))}
            present |= {first, second}
            edges[e], edges[f] = (a, c), (b, d)
            marked.remove(e)
    return present


def second_eigenvalue(pairs, members):
    matrix = np.zeros((members, members))
    for a, b in pairs:
        matrix[a, b] = matrix[b, a] = 1
    values = np.linalg.eigvalsh(matrix)
    return max(abs(values[0]), abs(values[-2]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--members", type=int, default=500)
    parser.add_argument("--neighbours", type=int, default=106)
    options = parser.parse_args()
    n, k = options.members, options.neighbours
    found = []
    for graph in range(options.graphs):
        pairs = draw_graph(hashlib.sha256(str(graph).encode()).digest(), n, k)
        assert len(pairs) == n * k // 2, "a graph that is not regular"
        found.append(second_eigenvalue(pairs, n))
    ring = {(min(a, (a + step) % n), max(a, (a + step) % n)) for a in range(n) for step in range(1, k // 2 + 1)}
    bound = 2.2 * math.sqrt(k - 1)
    print(f"{options.graphs} graphs of {n} members with {k} neighbours: largest |second eigenvalue| {max(found):.2f}, mean "
          f"{sum(found) / len(found):.2f}; 2 sqrt(k - 1) is {2 * math.sqrt(k - 1):.2f}, the bound {bound:.2f}; a ring has "
          f"{second_eigenvalue(ring, n):.1f}")
    if max(found) > bound:
        raise SystemExit("a graph is above the bound by which clients refuse one")


if __name__ == "__main__":
    main()
