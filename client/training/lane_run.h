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
#include "federated/states/state_blob.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// The bindings point into it: it stays where it is from the first run of a program to the last.
struct LaneRun {
  const Task& task;
  std::string_view client_id;
  const ExampleSource& examples;
  std::string_view state;
  std::span<const NamedState> beside;
  const CancellationToken& cancel;
  bool from_base = false;  // its one step reads the base model where it lies
  const int64_t size = examples.size();
  StreamKey rng{};
  TrainingCheckpoint* checkpoint = nullptr;
  std::vector<std::span<std::byte>> own{};  // with a checkpoint: all that a step may change beside its position
  TrainingPosition at{};
  bool goes_on = false;  // `at` is where an earlier process was: the epoch there has begun
  Bindings bindings{};

  // Where an earlier process was with this task, if it has left that.
  void GoOn();
  void BeginPass();
  // Not again where an earlier process had begun it.
  void BeginEpoch(const LocalPass& pass);
  // What a step over `count` examples has given: a value for each scalar of the pass.
  void Count(const LocalPass& pass, std::span<const float> values, int64_t count);
  // The step at which the pass is over, whatever is left of its epochs.
  uint64_t LastStep(const LocalPass& pass) const;
  // Another epoch of the pass. One that an earlier process had begun ends here, also where no step of it is left.
  bool MayBegin(const LocalPass& pass, uint64_t last) const;
};

}  // namespace rivulet
