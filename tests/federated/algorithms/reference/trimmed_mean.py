"""The coordinate-wise trimmed mean (Yin et al. 2018, arXiv:1803.01498, definition 2) in NumPy, in double: what
trimmed_mean_test.cc compares with.

    python3 tests/federated/algorithms/reference/trimmed_mean.py > tests/federated/algorithms/reference/trimmed_mean.inc
"""
import numpy as np

SIZE, UPDATES, TRIM = 9, 11, 0.2

random = np.random.default_rng(3)
deltas = np.float32(random.standard_cauchy(size=(UPDATES, SIZE)) * 0.1).astype(np.float64)
cut = int(TRIM * UPDATES)
mean = np.sort(deltas, axis=0)[cut:UPDATES - cut].mean(axis=0)


def row(name, values):
    cells = ", ".join(f"{value:.17g}" for value in np.ravel(values))
    print(f"constexpr double {name}[] = {{{cells}}};")


print("// Written by trimmed_mean.py.\nnamespace trimmed_mean_reference {")
print(f"constexpr size_t kSize = {SIZE}, kUpdates = {UPDATES};")
print(f"constexpr double kTrim = {TRIM};")
row("kDeltas", deltas)
row("kMean", mean)
print("}  // namespace trimmed_mean_reference")
