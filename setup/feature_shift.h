// Clients that see the same things differently: a data set in which each client's inputs are shifted by a law of its
// own. A virtual client and a file of a partition hold the same bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/status.h"
#include "engine/data/dataset.h"
#include "engine/models/model_def.h"
#include "federated/scenario/scenario.h"
#include "setup/shares.h"

namespace rivulet {

// Of G groups (as many as clients where config.groups is 0) client i is of group g = i mod G, and its values x, bytes
// taken as byte / 255, become by config.kind, with a = config.amount:
//   rotation    the image turned about its middle by a · g / G degrees, counter-clockwise, interpolated bilinearly,
//   with
//               zeros where it has nothing (rotated MNIST: Ghosh et al. 2020 turn by 0, 90, 180 and 270 degrees, which
//               is a = 360 and G = 4)
//   noise       x + a normal draw of variance a · (g + 1) / G, another for each value of each example (Li et al. 2022,
//               arXiv:2102.02079, section III-B)
//   brightness  x + a · (2 g / (G - 1) - 1): from -a to a; of one group x
//   colour      the channels of red, green and blue each × (1 - a · u), u uniform on [0, 1) and the group's own
// What becomes of bytes is rounded to bytes, 0 to 255; floats stay as they come out.
struct FeatureShift {
  const ShiftConfig& config;
  std::string feature;      // of the examples
  const ModelInput& input;  // that it feeds: its encoding and shape
  uint64_t seed;            // of all draws; what an example becomes depends on no other
};

// `data` with each example shifted as it is of the client that `shares` gives it to; an example of no client stays as
// it is. Reading costs a parse and the shift; beside `shares` it holds 4 bytes an example. INVALID_ARGUMENT: an unknown
// kind; tokens; an amount out of range; `rotation` of what is no [height, width, channels]; `colour` of other than 3
// channels; more groups than clients. Read: an example whose feature is not as `input` says.
StatusOr<std::shared_ptr<const Dataset>> ShiftFeatures(std::shared_ptr<const Dataset> data, const Shares& shares,
                                                       const FeatureShift& shift);

// "rotation by 0 to 270 degrees in 4 groups": what client sees what, for whoever is shown a partition.
std::string ShiftText(const ShiftConfig& config, int64_t clients);

}  // namespace rivulet
