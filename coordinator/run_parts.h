// Parts that a coordinator needs of a plan. Coordinator::Create takes them from the options' plan; tests of the
// coordinator supply theirs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/coordinator.h"
#include "federated/aggregation/aggregation.h"
#include "federated/plan/composition.h"
#include "federated/server_optimizers/server_optimizer.h"
#include "federated/settings/piece.h"
#include "federated/weights/model.h"

namespace rivulet {

struct RunParts {
  std::shared_ptr<const std::string> plan;  // as shipped
  Digest plan_digest;
  std::string dataset = "train";  // what the plan trains on
  std::shared_ptr<const ModelLayout> layout;
  AggregationSpec aggregation;
  AggregationSpec evaluation = {};  // of what clients measure; without scalars: the plan does not say how to measure
  std::shared_ptr<SumFiles> sum_files = nullptr;  // where an attempt's sums are, made by create.cc; null: in memory
  std::vector<PieceSpec> mean_mechanisms = {};
  CentralNoise noise = {};
  PieceSpec server_optimizer = {"sgd"};
  std::string download = {};              // the codec by which its versions travel; "": as they are
  std::vector<std::string> numbers = {};  // that its tasks bring, by name; none: no rule moves any
  PieceSpec number_rule = {};
  TaskPolicy policy = {};                    // its in_flight counts where tasks start from the latest version
  std::vector<std::string> broadcasts = {};  // what its clients read of a version beside the model, by name: "c"
  bool measures_broadcasts = false;          // and whether those read it who measure a version
  std::vector<std::string> declared = {};    // what graphs of its trainings declare, by name: "cluster"
  std::map<std::string, std::string> layout_metadata = {};  // of the model's files, federated/plan/layout_metadata.h
  int steps = 1;                                            // of a training task: those of its secure aggregation
  int sum_step = 0;                                         // at which its update is summed
  bool keeps_state = false;                                 // whether its clients keep something from task to task
  bool measures_state = false;                              // and whether they measure versions with it
  int64_t most_state_bytes = 0;                             // of one of them
  std::function<StatusOr<std::shared_ptr<const Model>>()> initial_model;
  DrawModel draw_model = nullptr;  // other first values of it, where the server optimiser has models beside it
};

// Coordinator::Create, from parts.
StatusOr<std::unique_ptr<Coordinator>> CreateCoordinator(CoordinatorOptions options, RunParts parts);

}  // namespace rivulet
