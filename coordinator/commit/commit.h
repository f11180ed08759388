// Computation of the next version from a round's sums: finished, applied to the version before, hashed, and evaluated
// when due. It uses memory and processor alone; version_writer.h writes the version later. It does not depend on the
// coordinator, its lock or its machine.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "federated/aggregation/aggregation.h"
#include "federated/evaluation/evaluator.h"
#include "federated/mechanisms/mean_mechanisms.h"
#include "federated/numbers/number_rule.h"
#include "federated/privacy/sum_noise.h"
#include "federated/server_optimizers/server_optimizer.h"
#include "federated/server_state/server_state.h"
#include "federated/server_state/server_training.h"

namespace rivulet {

class Tracer;  // engine/profile/tracer.h

struct MadeVersion : ServerState {
  double lost_fraction = 0;  // of non-zero coordinates, to rounding
  double dropped_share = 0;  // of adapters' products, by the rule "stack"
  double aggregate_seconds = 0, evaluate_seconds = 0;
  // "test/accuracy", with an evaluator; of the rule "stack" also "server/lora_dropped"
  std::map<std::string, Measure> central;
};

// What the server does with the mean of a version's updates. All must outlive the call.
struct ServerUpdate {
  const ServerOptimizer& optimizer;
  double learning_rate = 1;
  const MeanMechanisms* mechanisms = nullptr;  // before the optimiser's step; null: none
  int64_t version = 0;                         // that is made
  ServerTraining* training = nullptr;          // of what that step gave; null: none
  const NumberRule* numbers = nullptr;         // that go with its tasks; null: none
  std::vector<ReportedLoss> told = {};         // by which these move, in any order
  const privacy::SumNoise* noise = nullptr;    // on the sums, before they are divided; null: none
};

// The version after `base`, of updates that count by their `staleness` (Aggregation::Finish). `evaluator` and `tracer`
// may be null; a tracer gets the evaluation as a phase. Consumes the aggregation, whose sums are freed before an
// evaluation needs room. FAILED_PRECONDITION: the updates give no model that can be committed, as one that is not
// finite. Otherwise as the evaluator says.
StatusOr<MadeVersion> MakeVersion(const ServerState& base, std::unique_ptr<Aggregation> aggregation,
                                  const Staleness& staleness, const ServerUpdate& update, Evaluator* evaluator,
                                  Tracer* tracer);

// A sentence for the history where rounding lost more than the settings should allow; else "".
std::string LossWarning(double lost_fraction, const AggregationSpec& spec);

}  // namespace rivulet
