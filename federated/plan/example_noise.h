// Privacy of single examples, as a plan states it: the mechanism "example_gaussian" of its training. Each step draws
// examples at random, clips the gradient of each, sums them and adds noise before its rule reads `grads` (Abadi et al.
// 2016, arXiv:1607.00133, algorithm 1). Clipping, drawing and noise are the client's own code: a plan's graphs see
// nothing but noised sums.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/base/status.h"
#include "federated/plan/plan.h"

namespace rivulet {

inline constexpr char kExampleMechanism[] = "example_gaussian";
// The placeholder of a step's graph that has 1 for each row with an example, and 0 for padding: float32 [rows].
inline constexpr char kPresentRows[] = "present_rows";

struct ExampleNoise {
  double clip = 1;        // largest norm of one example's gradient
  double multiplier = 1;  // of the noise on a step's sum, over the clip
  bool seeded = false;    // noise and draws follow from the task's stream: for simulations
  double epsilon = 0;     // budget of each client over all that its site charged; 0: none
  double delta = 1e-5;
};

// Nullopt: the plan protects no single examples.
std::optional<ExampleNoise> ExampleNoiseOf(const Plan& plan);

// Rows of one program's batch. A step of more examples takes several programs, so no draw is too large; one of fewer
// has padding.
int64_t ExampleRows(int64_t batch_size);

// FAILED_PRECONDITION: the plan's training cannot protect single examples, and why: several passes, a loss or input of
// its own, reports of a pass, a scaled loss, or running statistics.
Status CheckExampleTraining(const Plan& plan);

}  // namespace rivulet
