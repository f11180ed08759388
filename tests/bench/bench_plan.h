// The plan made from a preset's scenario, for benchmarks.
#pragma once

#include <memory>
#include <string>

#include "engine/presets/presets.h"
#include "federated/algorithms/algorithm.h"
#include "federated/plan/plan.h"
#include "federated/scenario/scenario.h"

namespace rivulet::bench {

inline StatusOr<std::shared_ptr<const Plan>> PresetPlan(const std::string& preset,
                                                        const std::string& precision = "float32",
                                                        const std::string& kernels = "native",
                                                        const PrivacyConfig& privacy = {}, int64_t batch_size = 10) {
  Scenario scenario;
  scenario.run.name = "bench";
  scenario.run.kernels = kernels;
  scenario.model.preset = preset;
  scenario.client.epochs = 1;
  scenario.client.batch_size = batch_size;
  scenario.privacy = privacy;
  scenario.client.optimizer.learning_rate = 0.01;
  scenario.client.precision = precision;
  RIVULET_ASSIGN_OR_RETURN(const ModelDef model, Preset(preset));
  RIVULET_ASSIGN_OR_RETURN(std::string bytes, BuildPlan(scenario, model));
  return Plan::Open(std::move(bytes));
}

}  // namespace rivulet::bench
