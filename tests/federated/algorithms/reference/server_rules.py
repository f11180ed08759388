"""FedAvgM (Hsu et al. 2019, arXiv:1909.06335), FedAdagrad and FedYogi (Reddi et al. 2021, arXiv:2003.00295) in NumPy, in
double: what server_rules_test.cc compares with.

    python3 tests/federated/algorithms/reference/server_rules.py > tests/federated/algorithms/reference/server_rules.inc
"""
import numpy as np

SIZE, ROUNDS = 12, 3
BETA1, BETA2, TAU, FIRST, RATE = 0.8, 0.95, 0.01, 0.0004, 0.05

random = np.random.default_rng(8)
base = np.float32(random.normal(size=SIZE)).astype(np.float64)
deltas = np.float32(random.normal(size=(ROUNDS, SIZE)) * 0.1).astype(np.float64)


def row(name, values):
    cells = ", ".join(f"{value:.17g}" for value in np.ravel(values))
    print(f"constexpr double {name}[] = {{{cells}}};")


def adaptive(squares):
    w, m, v = base, np.zeros(SIZE), np.full(SIZE, FIRST)
    for d in deltas:
        m = BETA1 * m + (1 - BETA1) * d
        v = squares(v, d**2)
        w = w + RATE * m / (np.sqrt(v) + TAU)
    return w


print("// Written by server_rules.py.\nnamespace server_rules_reference {")
print(f"constexpr size_t kSize = {SIZE}, kRounds = {ROUNDS};")
print(f"constexpr double kBeta1 = {BETA1}, kBeta2 = {BETA2}, kTau = {TAU}, kFirst = {FIRST}, kRate = {RATE};")
row("kBase", base)
row("kDeltas", deltas)
row("kAdagrad", adaptive(lambda v, d2: v + d2))
row("kYogi", adaptive(lambda v, d2: v - (1 - BETA2) * d2 * np.sign(v - d2)))
w, m = base, np.zeros(SIZE)
for d in deltas:
    m = BETA1 * m + d
    w = w + RATE * m
row("kMomentum", w)
print("}  // namespace server_rules_reference")
