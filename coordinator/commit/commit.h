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
  double lost_fraction = 0;  // of non-zero coordinates, lost to rounding
  double dropped_share = 0;  // of adapters' products, dropped by the rule "stack"
  double aggregate_seconds = 0, evaluate_seconds = 0;
  // "test/accuracy", with an evaluator; for the rule "stack" also "server/lora_dropped"
  std::map<std::string, Measure> central;
};

// The server's step on the mean of a version's updates. All references must outlive the call.
struct ServerUpdate {
  const ServerOptimizer& optimizer;
  double learning_rate = 1;
  const MeanMechanisms* mechanisms = nullptr;  // before the optimiser's step; null: none
  int64_t version = 0;                         // the one that is made
  ServerTraining* training = nullptr;          // trains the step's result further; null: none
  const NumberRule* numbers = nullptr;         // for numbers of its tasks; null: none
  std::vector<ReportedLoss> told = {};         // which move these numbers, in any order
  const privacy::SumNoise* noise = nullptr;    // on the sums, before they are divided; null: none
};

// The version after `base`, from updates weighted by their `staleness` (Aggregation::Finish). `evaluator` and `tracer`
// may be null; a tracer records the evaluation as a phase. Consumes the aggregation, whose sums are freed before the
// evaluation. FAILED_PRECONDITION: the updates give no model that can be committed, such as one that is not finite.
// Other errors are the evaluator's.
StatusOr<MadeVersion> MakeVersion(const ServerState& base, std::unique_ptr<Aggregation> aggregation,
                                  const Staleness& staleness, const ServerUpdate& update, Evaluator* evaluator,
                                  Tracer* tracer);

// A warning for the history if rounding lost more than the settings should allow; else "".
std::string LossWarning(double lost_fraction, const AggregationSpec& spec);

}  // namespace rivulet
