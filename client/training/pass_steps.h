// Steps of a pass over a client's data: over shuffled batches, or over those of the pass's own input.
#pragma once

#include <cstdint>
#include <vector>

#include "client/training/bound_passes.h"
#include "client/training/lane_run.h"
#include "client/training/trainer.h"
#include "engine/base/status.h"

namespace rivulet {

// Runner of one trainer's steps; its arguments must outlive it. A step allocates no memory of its own.
class PassSteps {
 public:
  // `monitor`, which may be null, observes the steps.
  PassSteps(const Plan& plan, BoundPasses& passes, StepMonitor* monitor, LoopBudget loops)
      : plan_(plan), passes_(passes), monitor_(monitor), loops_(loops) {}

  // All steps of the pass, from the lane's position. Errors: Trainer::Train's, for one lane.
  Status Run(LaneRun& lane, BoundPass& pass);
  // Runs one program once: a pass's begin or end, or a step with its feeds and fetches.
  Status Run(LaneRun& lane, BoundProgram& program);

 private:
  Status Step(LaneRun& lane, const BoundPass& pass, BoundProgram& program, int64_t count);
  Status OverEpochs(LaneRun& lane, BoundPass& bound);
  Status OverInput(LaneRun& lane, BoundPass& bound);

  const Plan& plan_;
  BoundPasses& passes_;
  StepMonitor* const monitor_;
  const LoopBudget loops_;
  std::vector<uint32_t> order_;  // of an epoch
};

}  // namespace rivulet
