// Steps of a training that protects single examples (federated/plan/example_noise.h): DP-SGD of Abadi et al. 2016
// (arXiv:1607.00133, algorithm 1). Each step draws every example with probability batch / examples and sums their
// clipped gradients. It adds an exact discrete Gaussian to the sum in whole units and divides by the planned batch
// size. The plan's rule then takes its step. Draws and noise follow from a secret key of the client's site, the task
// and the step's number.
#pragma once

#include <cstdint>
#include <span>
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

// Noise in units of 2^-fraction_bits on sums of values with that norm. Rounding and float32 products are covered by
// a slightly larger norm (docs/reference/privacy-accounting.md).
struct ExampleUnits {
  int fraction_bits = 0;
  double norm = 0;            // in units: of one example, after rounding
  privacy::NoiseScale scale;  // of the noise, in units
};
// OUT_OF_RANGE: noise that is too small or too large for exact sampling.
StatusOr<ExampleUnits> ExampleUnitsOf(const ExampleNoise& noise, int64_t parameters);

// `steps` steps over so many examples, for accountants, with the rate rounded up by less than 1 %.
privacy::NoisedRounds ExampleRounds(const ExampleUnits& units, int64_t parameters, int64_t batch_size, int64_t examples,
                                    int64_t steps);
// The rounds of a whole task of the plan. Errors as ExampleUnitsOf.
StatusOr<privacy::NoisedRounds> ExampleRoundsOf(const Plan& plan, int64_t examples);

// Steps in one pass over `examples`: as many as batches.
int64_t ExampleStepsPerEpoch(int64_t batch_size, int64_t examples);

// The key of a task: of its site's key, or where the plan says "seeded" of the task's stream.
StatusOr<privacy::NoiseKey> ExampleKeyOf(const privacy::NoiseKey& site, const Task& task);
privacy::NoiseKey SeededExampleKey(const Task& task);

// Which examples a step has, in ascending order: each with probability min(1, batch_size / examples), exactly.
Status DrawExamples(const privacy::NoiseKey& task_key, uint64_t step, int64_t batch_size, int64_t examples,
                    std::vector<uint32_t>& drawn);

// One trainer's; what it is given must outlive it.
class ExampleSteps {
 public:
  ExampleSteps(const Plan& plan, BoundPasses& passes, PassSteps& steps);

  // All steps of the pass, from where the lane is. `grads`: the lane's gradient buffer. INVALID_ARGUMENT: a gradient
  // that is not finite. Others as PassSteps::Run.
  Status Run(LaneRun& lane, const BoundPass& pass, std::span<float> grads, const privacy::NoiseKey& task_key);

 private:
  Status Sum(LaneRun& lane, BoundProgram& program, std::span<const uint32_t> drawn, std::span<float> grads);
  Status AddNoise(const privacy::NoiseKey& task_key, uint64_t step, const ExampleUnits& units, int64_t batch_size,
                  std::span<float> grads);

  const Plan& plan_;
  BoundPasses& passes_;
  PassSteps& steps_;
  // Of the gradients, which have padding between variables: first and count, in floats.
  std::vector<std::pair<size_t, size_t>> variables_;
  std::vector<uint32_t> drawn_, rows_;
  std::vector<double> sum_;
  std::vector<int64_t> noise_;
};

}  // namespace rivulet
