// An algorithm that only tests have: each client counts its tasks in the state `n`, and what it has counted so far
// shows in its gradients. Include it in one file of a program.
#pragma once

#include "federated/algorithms/algorithm.h"

namespace rivulet::testing {

inline StatusOr<Composition> Counting(const AlgorithmContext& context) {
  RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
  composition.state = {{.name = "n"}};
  composition.passes[0].gradient = [](FlatScope& f) { return f.Add(f.grads(), f.Scale(0.01, f.Read("state/n"))); };
  composition.passes[0].at_end = [](FlatScope& f) {
    const Output n = f.Read("state/n");
    f.Assign("state/n", f.scope().Op("AddV2", {n, f.scope().Const(1.0f, "one")}));
  };
  return composition;
}

// Bytes of such a state that are no counts: two numbers, a name of one letter with its length, a size.
inline constexpr size_t kCountOverhead = 4 + 4 + 1 + 8 + 4;

RIVULET_ALGORITHM(counting_registration, "test_counting", "none", "Counts tasks.", {}, Counting, "n ← n + 1");

}  // namespace rivulet::testing
