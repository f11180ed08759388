"""Versions of FedBuff (Nguyen et al. 2022, arXiv:2106.06639, algorithm 1) in NumPy, in double: what fedbuff_test.cc
compares with. What a late update counts is rounded to a 256th, as the plan says.

    python3 tests/federated/algorithms/reference/fedbuff.py > tests/federated/algorithms/reference/fedbuff.inc
"""
import numpy as np

SIZE, UPDATES, VERSIONS, RATE, EXPONENT = 7, 5, 4, 0.5, 0.5

random = np.random.default_rng(4)
model = np.float32(random.normal(size=SIZE)).astype(np.float64)
base = model
deltas = np.float32(random.normal(size=(VERSIONS, UPDATES, SIZE)) * 0.1).astype(np.float64)
late = np.array([[random.integers(0, version + 1) for _ in range(UPDATES)] for version in range(VERSIONS)])
counts = np.round(256 / (1 + late) ** EXPONENT) / 256
models = []
for version in range(VERSIONS):
    model = model + RATE / UPDATES * (counts[version][:, None] * deltas[version]).sum(axis=0)
    models.append(model)


def row(kind, name, values):
    cells = ", ".join(f"{value:.17g}" for value in np.ravel(values))
    print(f"constexpr {kind} {name}[] = {{{cells}}};")


print("// Written by fedbuff.py.\nnamespace fedbuff_reference {")
print(f"constexpr size_t kSize = {SIZE}, kUpdates = {UPDATES}, kVersions = {VERSIONS};")
print(f"constexpr double kRate = {RATE}, kExponent = {EXPONENT};")
row("double", "kBase", base)
row("double", "kDeltas", deltas)
row("int64_t", "kLate", late)
row("double", "kModels", models)
print("}  // namespace fedbuff_reference")
