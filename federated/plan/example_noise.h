// Privacy of single examples, as stated in a plan: the mechanism "example_gaussian" of its training. Each step draws
// examples at random, clips the gradient of each, sums them and adds noise before its rule reads `grads` (Abadi et al.
// 2016, arXiv:1607.00133, algorithm 1). Clipping, sampling and noise are the client's own code: a plan's graphs see
// only noised sums.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/base/status.h"
#include "federated/plan/plan.h"

namespace rivulet {

inline constexpr char kExampleMechanism[] = "example_gaussian";
// The placeholder in a step's graph that is 1 for rows with an example, and 0 for padding: float32 [rows].
inline constexpr char kPresentRows[] = "present_rows";

struct ExampleNoise {
  double clip = 1;        // largest norm of one example's gradient
  double multiplier = 1;  // noise on a step's sum over the clip
  bool seeded = false;    // noise and draws come from the task's stream: for simulations
  double epsilon = 0;     // budget per client over all charges of its site; 0: none
  double delta = 1e-5;
};

// nullopt: the plan does not protect single examples.
std::optional<ExampleNoise> ExampleNoiseOf(const Plan& plan);

// Rows of one program's batch. A step with more examples runs several programs, so no draw is too large; a step with
// fewer uses padding.
int64_t ExampleRows(int64_t batch_size);

// FAILED_PRECONDITION: the plan's training cannot protect single examples; the message gives the reason: several
// passes, a custom loss or input, reports of a pass, a scaled loss, or running statistics.
Status CheckExampleTraining(const Plan& plan);

}  // namespace rivulet
