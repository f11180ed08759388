"""FedAdam (Reddi et al. 2021, arXiv:2003.00295, algorithm 2) in NumPy, in double: what fedadam_test.cc compares with.

    python3 tests/federated/algorithms/reference/fedadam.py > tests/federated/algorithms/reference/fedadam.inc
"""
import numpy as np

SIZE, ROUNDS = 12, 3
BETA1, BETA2, TAU, FIRST, RATE = 0.8, 0.95, 0.01, 0.0004, 0.05

random = np.random.default_rng(7)
w = np.float32(random.normal(size=SIZE)).astype(np.float64)
deltas = np.float32(random.normal(size=(ROUNDS, SIZE)) * 0.1).astype(np.float64)


def row(name, values):
    cells = ", ".join(f"{value:.17g}" for value in np.ravel(values))
    print(f"constexpr double {name}[] = {{{cells}}};")


print("// Written by fedadam.py.\nnamespace fedadam_reference {")
print(f"constexpr size_t kSize = {SIZE}, kRounds = {ROUNDS};")
print(f"constexpr double kBeta1 = {BETA1}, kBeta2 = {BETA2}, kTau = {TAU}, kFirst = {FIRST}, kRate = {RATE};")
row("kBase", w)
row("kDeltas", deltas)
m, v, models = np.zeros(SIZE), np.full(SIZE, FIRST), []
for delta in deltas:
    m = BETA1 * m + (1 - BETA1) * delta
    v = BETA2 * v + (1 - BETA2) * delta**2
    w = w + RATE * m / (np.sqrt(v) + TAU)
    models.append(w)
row("kModels", models)
row("kMoment", m)
row("kSquares", v)
print("}  // namespace fedadam_reference")
