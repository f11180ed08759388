// Measures of a model for each client, over its examples of a local data set. With `evaluation.federated_every` clients
// report such measures. This file also computes measures that are not means and cannot be reported, such as r2 of the
// targets.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/dataset.h"
#include "engine/data/progress.h"
#include "federated/evaluation/evaluator.h"
#include "federated/plan/plan.h"
#include "federated/weights/model.h"
#include "setup/partitioners/shares.h"

namespace rivulet {

struct ClientMeasures {
  std::string client_id;
  int64_t examples = 0;
  std::map<std::string, Measure> measures;  // "evaluate/loss", "evaluate/accuracy", "evaluate/r2", as in MeasuredSet
};

// Measures each client of `shares`, in that order, with indices into `data`. Each is one evaluation on one thread, with
// programs compiled for its number of examples. Errors as CentralEvaluator; `progress` counts clients.
StatusOr<std::vector<ClientMeasures>> MeasureClients(const std::shared_ptr<const Plan>& plan,
                                                     const std::shared_ptr<const Dataset>& data, const Shares& shares,
                                                     const Model& model, int64_t batch_size,
                                                     const DataProgress& progress);

}  // namespace rivulet
