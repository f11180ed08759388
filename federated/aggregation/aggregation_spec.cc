#include "federated/aggregation/aggregation_spec.h"

#include <bit>

namespace rivulet {
namespace {

// ceil(log2(count)) for count >= 1.
int CeilLog2(uint64_t count) { return static_cast<int>(std::bit_width(count - 1)); }

constexpr int64_t kMaxUpdates = int64_t{1} << 31;
constexpr int kMaxValueBits = 30;

}  // namespace

// The resolution is not a setting but follows from the bounds: as fine as it can be while no set of updates that passes
// Check can overflow. So a fold never has to look for overflow.
int AggregationSpec::fraction_bits() const {
  // Sums stay below 2^62: updates × weight × 2^value_bits, in units of 2^-s.
  return 62 - value_bits - CeilLog2(static_cast<uint64_t>(updates_per_version) * static_cast<uint64_t>(max_weight));
}

Status ValidateSpec(const AggregationSpec& spec) {
  if (spec.elements < 1 || spec.elements > (int64_t{1} << 40)) {
    return InvalidArgument("an update of {} elements cannot be aggregated; it has 1 to 2^40", spec.elements);
  }
  if (spec.updates_per_version < 1 || spec.updates_per_version > kMaxUpdates) {
    return InvalidArgument("{} updates per version (server.clients_per_round) are not between 1 and 2^31",
                           spec.updates_per_version);
  }
  if (spec.max_weight < 1 || spec.max_weight > kMaxWeight) {
    return InvalidArgument("server.max_weight = {} is not between 1 and 2^29 - 1", spec.max_weight);
  }
  if (spec.value_bits < 0 || spec.value_bits > kMaxValueBits) {
    return InvalidArgument("server.value_bits = {} is not between 0 and {}", spec.value_bits, kMaxValueBits);
  }
  if (spec.min_updates < 1 || spec.min_updates > spec.updates_per_version) {
    return InvalidArgument("{} updates (server.min_reports) can never be reached by the {} of a version",
                           spec.min_updates, spec.updates_per_version);
  }
  if (spec.fraction_bits() < 0) {
    return InvalidArgument(
        "server.value_bits = {}, server.max_weight = {} and {} updates per version need {} bits more than the 62 of a "
        "sum; lower one of them",
        spec.value_bits, spec.max_weight, spec.updates_per_version, -spec.fraction_bits());
  }
  return absl::OkStatus();
}

}  // namespace rivulet
