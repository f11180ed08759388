#include "federated/aggregation/aggregation_spec.h"

#include <bit>

namespace rivulet {
namespace {

// ceil(log2(count)) for count >= 1.
int CeilLog2(uint64_t count) { return static_cast<int>(std::bit_width(count - 1)); }

constexpr int64_t kMaxUpdates = int64_t{1} << 31;
constexpr int kMaxValueBits = 30;
constexpr int kMaxWeightFractionBits = 28;
constexpr int kMaxStalenessBits = 8;

}  // namespace

// The resolution is not a setting but follows from the bounds: as fine as it can be while no set of updates that passes
// Check can overflow. So a fold never has to look for overflow.
int AggregationSpec::fraction_bits() const {
  // At most 2^31 updates of weights below 2^29: the product has 60 bits.
  const auto weights = static_cast<uint64_t>(updates_per_version) * static_cast<uint64_t>(weight_bound());
  return sum_bits - 2 - value_bits - CeilLog2(weights) - staleness_bits;
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
  if (spec.weight_fraction_bits < 0 || spec.weight_fraction_bits > kMaxWeightFractionBits) {
    return InvalidArgument("server.weight_fraction_bits = {} is not between 0 and {}", spec.weight_fraction_bits,
                           kMaxWeightFractionBits);
  }
  // Beyond that, a weight times a float32 would no longer be exact in double.
  if (spec.max_weight > kMaxWeight >> spec.weight_fraction_bits) {
    return InvalidArgument(
        "server.max_weight = {} in units of 2^-{} is not below 2^29; lower it or server.weight_fraction_bits",
        spec.max_weight, spec.weight_fraction_bits);
  }
  if (spec.value_bits < -kMaxValueBits || spec.value_bits > kMaxValueBits) {
    return InvalidArgument("server.value_bits = {} is not between {} and {}", spec.value_bits, -kMaxValueBits,
                           kMaxValueBits);
  }
  if (spec.sum_bits != 64 && spec.sum_bits != 32) {
    return InvalidArgument("sums of {} bits cannot be kept; they have 64, or 32 under masks", spec.sum_bits);
  }
  if (spec.staleness_bits < 0 || spec.staleness_bits > kMaxStalenessBits) {
    return InvalidArgument("a factor of {} bits for staleness is not between 0 and {}", spec.staleness_bits,
                           kMaxStalenessBits);
  }
  if (spec.min_updates < 1 || spec.min_updates > spec.updates_per_version) {
    return InvalidArgument("{} updates (server.min_reports) can never be reached by the {} of a version",
                           spec.min_updates, spec.updates_per_version);
  }
  if (spec.fraction_bits() < 0) {
    const std::string fractions = spec.weight_fraction_bits == 0
                                      ? ""
                                      : fmt::format(", server.weight_fraction_bits = {}", spec.weight_fraction_bits);
    return InvalidArgument(
        "server.value_bits = {}, server.max_weight = {}{} and {} updates per version (server.clients_per_round) need "
        "{} bits more than the {} of a sum; lower one of them",
        spec.value_bits, spec.max_weight, fractions, spec.updates_per_version, -spec.fraction_bits(),
        spec.sum_bits - 2 - spec.staleness_bits);
  }
  return absl::OkStatus();
}

}  // namespace rivulet
