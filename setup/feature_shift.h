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

// Of G groups (as many as clients where config.groups is 0) client i is of group g = i mod G. Its values x, bytes taken
// as byte / 255, change by the law config.kind: one of those that setup/feature_shifts/ registers, each with its
// formula. What becomes of bytes is rounded to bytes, 0 to 255; floats stay as they come out.
struct FeatureShift {
  const ShiftConfig& config;
  std::string feature;      // of the examples
  const ModelInput& input;  // that it feeds: its encoding and shape
  uint64_t seed;            // of all draws; what an example becomes depends on no other
};

// `data` with each example shifted as it is of the client that `shares` gives it to; an example of no client stays as
// it is. Reading costs a parse and the shift; beside `shares` it holds 4 bytes an example. INVALID_ARGUMENT: an unknown
// kind; tokens; an option out of range; an input that the law does not fit; more groups than clients. Read: an example
// whose feature is not as `input` says.
StatusOr<std::shared_ptr<const Dataset>> ShiftFeatures(std::shared_ptr<const Dataset> data, const Shares& shares,
                                                       const FeatureShift& shift);

// "rotation by 0 to 270 degrees, in 4 groups", for a person. INVALID_ARGUMENT as ShiftFeatures.
StatusOr<std::string> ShiftText(const ShiftConfig& config, int64_t clients);

}  // namespace rivulet
