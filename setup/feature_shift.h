// Feature shift among clients: a data set in which each client's inputs are transformed differently. A virtual client
// and a partition's file have the same bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/status.h"
#include "engine/data/dataset.h"
#include "engine/models/model_def.h"
#include "federated/scenario/scenario.h"
#include "setup/partitioners/shares.h"

namespace rivulet {

// A feature shift. With G groups (one per client if config.groups is 0), client i is in group g = i mod G. Its values
// x, bytes as byte / 255, change by the law config.kind, registered in setup/feature_shifts/ with its formula. Results
// for bytes are rounded to bytes, 0 to 255; floats are not rounded.
struct FeatureShift {
  const ShiftConfig& config;
  std::string feature;      // of the examples
  const ModelInput& input;  // the input it feeds, with encoding and shape
  uint64_t seed;            // of all draws; each example's result is independent of others
};

// `data` with each example shifted for its client in `shares`; an example without a client is unchanged. A read costs a
// parse and the shift; memory is 4 bytes per example besides `shares`. INVALID_ARGUMENT: an unknown kind; tokens; an
// option out of range; an input that does not fit the law; more groups than clients. Read fails for an example whose
// feature does not fit `input`.
StatusOr<std::shared_ptr<const Dataset>> ShiftFeatures(std::shared_ptr<const Dataset> data, const Shares& shares,
                                                       const FeatureShift& shift);

// "rotation by 0 to 270 degrees, in 4 groups", for people. INVALID_ARGUMENT as ShiftFeatures.
StatusOr<std::string> ShiftText(const ShiftConfig& config, int64_t clients);

}  // namespace rivulet
