"""Top-k with error feedback (Stich et al. 2018, arXiv:1809.07599, algorithm 1, with whole updates in the place of
gradient steps) in NumPy, in double, over the rounds of one client: what error_feedback_test.cc compares with.

    python3 tests/federated/algorithms/reference/top_k.py > tests/federated/algorithms/reference/top_k.inc
"""
import numpy as np

SIZE, ROUNDS, K = 15, 6, 4

random = np.random.default_rng(5)
deltas = np.float32(random.standard_normal(size=(ROUNDS, SIZE)) * 0.1).astype(np.float64)
left_out = np.zeros(SIZE)
sent = []
for delta in deltas:
    wanted = delta + left_out
    largest = np.argsort(-np.abs(wanted))[:K]
    sent.append(np.zeros(SIZE))
    sent[-1][largest] = wanted[largest]
    left_out = wanted - sent[-1]


def row(name, values):
    cells = ", ".join(f"{value:.17g}" for value in np.ravel(values))
    print(f"constexpr double {name}[] = {{{cells}}};")


print("// Written by top_k.py.\nnamespace top_k_reference {")
print(f"constexpr size_t kSize = {SIZE}, kRounds = {ROUNDS}, kK = {K};")
row("kDeltas", deltas)
row("kSent", sent)
row("kLeftOut", left_out)
print("}  // namespace top_k_reference")
