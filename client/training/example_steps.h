// Steps of a training that protects single examples (federated/plan/example_noise.h): DP-SGD of Abadi et al. 2016
// (arXiv:1607.00133, algorithm 1). Each step draws every example with probability batch / examples and sums their
// clipped gradients. It adds an exact discrete Gaussian to the sum in whole units and divides by the planned batch
// size. The plan's rule then takes its step. Draws and noise follow from a secret key of the client's site, the task
// and the step's number.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "client/training/bound_passes.h"
#include "client/training/lane_run.h"
#include "client/training/pass_steps.h"
#include "engine/base/status.h"
#include "federated/plan/example_noise.h"
#include "federated/privacy/integer_noise.h"
#include "federated/privacy/noise_key.h"
#include "federated/privacy/rounds.h"

namespace rivulet {

// The fraction by which float32 lets one example change a step's sum by more than the clip: the error of its norm, and
// twice the error of the sum, for as many examples as are drawn except once in 2^100 steps. docs/internals/privacy.md
// has the proof, and the models for which it holds.
double FloatSlackOf(const ModelLayout& layout, int64_t batch_size);

// Noise in units of 2^-fraction_bits on sums of values with that norm. Rounding and float32 products are covered by
// a slightly larger norm (docs/reference/privacy-accounting.md).
struct ExampleUnits {
  int fraction_bits = 0;
  double norm = 0;            // in units: of one example, after rounding
  privacy::NoiseScale scale;  // of the noise, in units
};
// OUT_OF_RANGE: noise that is too small or too large for exact sampling.
StatusOr<ExampleUnits> ExampleUnitsOf(const ExampleNoise& noise, int64_t parameters, double float_slack);

// `steps` steps over so many examples, for accountants, with the rate rounded up by less than 1 %.
privacy::NoisedRounds ExampleRounds(const ExampleUnits& units, int64_t parameters, int64_t batch_size, int64_t examples,
                                    int64_t steps);
// The rounds of a whole task of the plan. Errors as ExampleUnitsOf.
StatusOr<privacy::NoisedRounds> ExampleRoundsOf(const Plan& plan, int64_t examples);

// Steps in one pass over `examples`: as many as batches.
int64_t ExampleStepsPerEpoch(int64_t batch_size, int64_t examples);

// Digest of all inputs of a task's sums: the task (task_work.h), the client's `data`, the `program`, and the
// processor's kernels unless the plan asks for portable ones. A repetition with another of these is other work: with
// the same noise, the difference of the two updates would have no noise.
Digest ExampleWorkOf(const Task& task, const Digest& data, const Plan& plan, std::string_view program);

// The key of a task: from its site's key and ExampleWorkOf, or with the plan's "seeded" from the task's stream.
StatusOr<privacy::NoiseKey> ExampleKeyOf(const privacy::NoiseKey& site, const Digest& work);
privacy::NoiseKey SeededExampleKey(const Task& task);

// The examples of a step, ascending: each with probability min(1, batch_size / examples), exactly.
Status DrawExamples(const privacy::NoiseKey& task_key, uint64_t step, int64_t batch_size, int64_t examples,
                    std::vector<uint32_t>& drawn);

// Runner of one trainer's steps; its arguments must outlive it.
class ExampleSteps {
 public:
  ExampleSteps(const Plan& plan, BoundPasses& passes, PassSteps& steps);

  // All steps of the pass, from the lane's position. `grads`: the lane's gradient buffer. INVALID_ARGUMENT: a gradient
  // that is not finite. Others as PassSteps::Run.
  Status Run(LaneRun& lane, const BoundPass& pass, std::span<float> grads, const privacy::NoiseKey& task_key);

 private:
  Status Sum(LaneRun& lane, BoundProgram& program, std::span<const uint32_t> drawn, std::span<float> grads);
  Status AddNoise(const privacy::NoiseKey& task_key, uint64_t step, const ExampleUnits& units, int64_t batch_size,
                  std::span<float> grads);

  const Plan& plan_;
  BoundPasses& passes_;
  PassSteps& steps_;
  // Variables within the gradients, which have padding between: first and count, in floats.
  std::vector<std::pair<size_t, size_t>> variables_;
  std::vector<uint32_t> drawn_, rows_;
  std::vector<double> sum_;
  std::vector<int64_t> noise_;
};

}  // namespace rivulet
