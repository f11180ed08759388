"""Median, Krum, Multi-Krum, the geometric median, centred clipping and a bound on norms in NumPy, in double: what
robust_rules_test.cc compares with.

    python3 tests/federated/algorithms/reference/robust_rules.py > tests/federated/algorithms/reference/robust_rules.inc
"""
import numpy as np

SIZE, UPDATES, BYZANTINE, SMOOTHING, ITERATIONS, TAU = 9, 11, 0.2, 0.05, 4, 0.6

random = np.random.default_rng(4)
x = np.float32(random.standard_cauchy(size=(UPDATES, SIZE)) * 0.1).astype(np.float64)


def norm(a):
    return np.sqrt((a**2).sum(axis=-1, keepdims=True))


def row(name, values):
    cells = ", ".join(f"{value:.17g}" for value in np.ravel(values))
    print(f"constexpr double {name}[] = {{{cells}}};")


wrong = int(BYZANTINE * UPDATES)
squares = np.sort(((x[:, None] - x[None]) ** 2).sum(axis=2), axis=1)  # the first of a row is its own
order = np.argsort(squares[:, 1:1 + UPDATES - wrong - 2].sum(axis=1), kind="stable")

weiszfeld = x.mean(axis=0)
for _ in range(ITERATIONS):
    beta = 1 / np.maximum(SMOOTHING, norm(weiszfeld - x))
    weiszfeld = (beta * x).sum(axis=0) / beta.sum()

centre = np.zeros(SIZE)
for _ in range(ITERATIONS):
    centre = centre + ((x - centre) * np.minimum(1, TAU / norm(x - centre))).mean(axis=0)

print("// Written by robust_rules.py.\nnamespace robust_rules_reference {")
print(f"constexpr size_t kSize = {SIZE}, kUpdates = {UPDATES};")
print(f"constexpr double kByzantine = {BYZANTINE}, kSmoothing = {SMOOTHING}, kTau = {TAU};")
print(f"constexpr int64_t kIterations = {ITERATIONS};")
row("kDeltas", x)
row("kMedian", np.median(x, axis=0))
row("kKrum", x[order[0]])
row("kMultiKrum", x[order[:UPDATES - wrong]].mean(axis=0))
row("kGeometricMedian", weiszfeld)
row("kCenteredClipping", centre)
row("kNormBound", (x * np.minimum(1, TAU / norm(x))).mean(axis=0))
print("}  // namespace robust_rules_reference")
