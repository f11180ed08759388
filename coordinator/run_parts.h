// Parts of a plan that a coordinator needs. Coordinator::Create takes them from the options' plan; tests of the
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
  std::string dataset = "train";  // the data set that the plan trains on
  std::shared_ptr<const ModelLayout> layout;
  AggregationSpec aggregation;
  AggregationSpec evaluation = {};                // of clients' measures; without scalars: the plan has no measures
  std::shared_ptr<SumFiles> sum_files = nullptr;  // the place of an attempt's sums, made by create.cc; null: in memory
  std::vector<PieceSpec> mean_mechanisms = {};
  CentralNoise noise = {};
  PieceSpec server_optimizer = {"sgd"};
  std::string download = {};              // the codec of versions for download; "": none
  std::vector<std::string> numbers = {};  // names of the numbers that tasks report; none: no rule changes any
  PieceSpec number_rule = {};
  TaskPolicy policy = {};                    // in_flight applies if tasks start from the latest version
  std::vector<std::string> broadcasts = {};  // names of a version's broadcasts that clients read beside the model: "c"
  bool measures_broadcasts = false;          // and whether clients that measure a version read them
  std::vector<std::string> declared = {};    // declared names in graphs of its trainings: "cluster"
  std::map<std::string, std::string> layout_metadata = {};  // of the model's files, federated/plan/layout_metadata.h
  int steps = 1;                                            // of a training task: those of secure aggregation
  int sum_step = 0;                                         // at which the update is summed
  bool keeps_state = false;                                 // whether clients keep state from task to task
  bool measures_state = false;                              // and whether they use it to measure versions
  int64_t most_state_bytes = 0;                             // of one client
  std::function<StatusOr<std::shared_ptr<const Model>>()> initial_model;
  DrawModel draw_model = nullptr;  // draws other initial values, if the server optimiser has models beside it
};

// Coordinator::Create with given parts.
StatusOr<std::unique_ptr<Coordinator>> CreateCoordinator(CoordinatorOptions options, RunParts parts);

}  // namespace rivulet
