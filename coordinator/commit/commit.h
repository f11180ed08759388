// From what a round gathered to the next version, in two moments that have nothing in common but their order:
//
//   made      finished, applied to the version before, hashed, evaluated when that is due: memory and processor alone
//   written   the file, synced and renamed; one transaction of rows; the removal of the file before
//
// Neither knows the coordinator, its lock or its machine.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "coordinator/history/history.h"
#include "coordinator/model_store/model_store.h"
#include "engine/base/status.h"
#include "federated/aggregation/aggregation.h"
#include "federated/evaluation/evaluator.h"
#include "federated/weights/model.h"

namespace rivulet {

class Tracer;  // engine/profile/tracer.h

struct MadeVersion {
  std::shared_ptr<const Model> model;
  Digest digest;             // model_digest
  double lost_fraction = 0;  // of non-zero coordinates, to rounding
  double aggregate_seconds = 0, evaluate_seconds = 0;
  std::map<std::string, Measure> central;  // "test/accuracy"; empty without an evaluator
};

// The version after `base`. `evaluator` and `tracer` may be null; a tracer gets the evaluation as a phase. Consumes the
// aggregation, whose sums are freed before an evaluation needs room. FAILED_PRECONDITION: the updates give no model
// that can be committed, as one that is not finite. Otherwise as the evaluator says.
StatusOr<MadeVersion> MakeVersion(const Model& base, std::unique_ptr<Aggregation> aggregation, double learning_rate,
                                  Evaluator* evaluator, Tracer* tracer);

// A sentence for the history where rounding lost more than the settings should allow; else "".
std::string LossWarning(double lost_fraction, const AggregationSpec& spec);

// Makes a version and `rows`, those of the attempt that gave it, survive a crash: its file, one transaction of the rows
// with the model's own, and then, where only the last models are kept, the removal of the file two versions back: the
// two newest stay, so that a history that lost its log still finds the model it names. After an error of the
// file nothing is left; after one of the transaction the files stay, since a transaction that could not be synced may
// be found in the log, and the next start removes what no row names.
StatusOr<StoredModel> WriteVersion(History& history, ModelStore& models, AttemptRecord rows, MadeVersion made,
                                   bool keep_last);

}  // namespace rivulet
