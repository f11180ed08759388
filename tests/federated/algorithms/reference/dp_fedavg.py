"""The mean of DP-FedAvg before its noise (McMahan et al. 2018, arXiv:1710.06963, algorithm 1 with flat clipping and the
estimator of a fixed denominator) in NumPy, in double: what dp_fedavg_test.cc compares with.

    python3 tests/federated/algorithms/reference/dp_fedavg.py > tests/federated/algorithms/reference/dp_fedavg.inc
"""
import numpy as np

SIZE, UPDATES, PLANNED, CLIP = 9, 5, 7, 0.3

random = np.random.default_rng(8)
scales = np.array([[0.02], [1.0], [0.1], [0.3], [5.0]])  # the first is within the bound
deltas = np.float32(random.standard_normal(size=(UPDATES, SIZE)) * scales).astype(np.float64)
norms = np.sqrt(np.sum(deltas**2, axis=1, keepdims=True))
mean = np.sum(deltas * np.minimum(1, CLIP / norms), axis=0) / PLANNED


def row(name, values):
    cells = ", ".join(f"{value:.17g}" for value in np.ravel(values))
    print(f"constexpr double {name}[] = {{{cells}}};")


print("// Written by dp_fedavg.py.\nnamespace dp_fedavg_reference {")
print(f"constexpr size_t kSize = {SIZE}, kUpdates = {UPDATES};")
print(f"constexpr int64_t kPlanned = {PLANNED};")
print(f"constexpr double kClip = {CLIP};")
row("kDeltas", deltas)
row("kMean", mean)
print("}  // namespace dp_fedavg_reference")
