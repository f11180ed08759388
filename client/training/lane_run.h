// State of one task while a trainer trains it: its inputs and its position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "client/training/training_checkpoint.h"
#include "engine/program/program.h"
#include "federated/plan/example_source.h"
#include "federated/plan/pass.h"
#include "federated/privacy/noise_key.h"
#include "federated/states/state_blob.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// A task under way. Its address must not change between its first and last program run: bindings point into it.
struct LaneRun {
  const Task& task;
  std::string_view client_id;
  const ExampleSource& examples;
  std::string_view state;
  std::span<const NamedState> beside;
  const CancellationToken& cancel;
  const privacy::NoiseKey* example_key = nullptr;  // of a plan that protects single examples
  bool from_base = false;                          // its one step reads the base model in place
  const int64_t size = examples.size();
  StreamKey rng{};
  TrainingCheckpoint* checkpoint = nullptr;
  std::vector<std::span<std::byte>> own{};  // with a checkpoint: all buffers that a step may change
  TrainingPosition at{};
  bool goes_on = false;  // `at` comes from a checkpoint: its epoch has begun
  Bindings bindings{};

  // Loads the position and buffers from the checkpoint, if there is one of this task.
  void GoOn();
  void BeginPass();
  // Starts an epoch, unless it was resumed.
  void BeginEpoch(const LocalPass& pass);
  // Adds the scalars of a step over `count` examples, a value for each scalar of the pass.
  void Count(const LocalPass& pass, std::span<const float> values, int64_t count);
  // The step at which the pass ends even if epochs are left.
  uint64_t LastStep(const LocalPass& pass) const;
  // Whether another epoch of the pass starts. A resumed epoch counts as one even if no step of it is left.
  bool MayBegin(const LocalPass& pass, uint64_t last) const;
};

}  // namespace rivulet
