// The mean of deltas weighted by examples: federated averaging's rule (McMahan et al. 2017, Algorithm 1).
#include <cmath>
#include <cstring>

#include "federated/aggregation/aggregation.h"
#include "federated/aggregation/fixed_point.h"

namespace rivulet {
namespace {

constexpr std::string_view kDelta = "delta";
// Scalars are for reporting, but a report that depended on the order of folds would make two equal runs look unequal.
// Multiples of 2^-20 add up exactly in double while their sum stays below 2^33.
constexpr double kScalarUnit = 0x1p-20;

double RoundedScalar(double weighted) { return std::nearbyint(weighted / kScalarUnit) * kScalarUnit; }

class WeightedMean : public Aggregation {
 public:
  explicit WeightedMean(const AggregationSpec& spec) {
    state_.spec = spec;
    state_.sums.resize(static_cast<size_t>(spec.elements));
  }

  // All of an update is read before any of it is added: an update that is refused in the middle of a fold could not be
  // taken out again.
  Status Check(const UpdateView& update) const override {
    RIVULET_RETURN_IF_ERROR(CheckForm(update));
    const PartView& delta = update.parts[0];
    const size_t beyond = FirstBeyond(delta.data, spec().value_bits);
    if (beyond < delta.data.size() / 4) {
      float value;
      std::memcpy(&value, delta.data.data() + 4 * beyond, 4);
      if (!std::isfinite(value)) {
        return InvalidArgument("the update of task '{}' has {} at element {} of its delta; its training diverged",
                               update.task, std::isnan(value) ? "NaN" : "infinity", beyond);
      }
      return InvalidArgument(
          "the update of task '{}' has {} at element {} of its delta, beyond ±2^{}; raise server.value_bits if that is "
          "no error",
          update.task, value, beyond, spec().value_bits);
    }
    for (const auto& [name, value] : update.scalars) {
      if (!std::isfinite(value)) {
        return InvalidArgument("the update of task '{}' reports {} = {}, which is not a number to report", update.task,
                               name, value);
      }
    }
    return absl::OkStatus();
  }

  // weight × value is rounded once, to a multiple of 2^-s, and added as an integer. Integers add up to the same sum in
  // any order, which is why updates may be folded as they arrive, by any number of threads, and a partial may be
  // merged.
  Status Fold(const UpdateView& update) override {
    if (state_.tasks.contains(update.task)) return absl::OkStatus();
    RIVULET_RETURN_IF_ERROR(CheckForm(update));
    RIVULET_RETURN_IF_ERROR(CheckRoom(1));
    const PartView& delta = update.parts[0];
    const double scale = std::ldexp(static_cast<double>(delta.weight), spec().fraction_bits());
    const FoldCounts counts = FoldFloats(delta.data, scale, state_.sums);
    state_.nonzeros += counts.nonzeros;
    state_.lost_nonzeros += counts.lost;
    state_.weight_sum += delta.weight;
    for (const auto& [name, value] : update.scalars) {
      state_.scalar_sums[name] += RoundedScalar(static_cast<double>(delta.weight) * value);
    }
    state_.tasks.insert(update.task);
    return absl::OkStatus();
  }

  // A partial comes from another process. Its digest says that it arrived whole; that what it claims is possible at all
  // can only be told from the bounds.
  Status Check(const Partial& partial) const override {
    const AggregationSpec& theirs = partial.spec;
    const AggregationSpec& ours = spec();
    if (theirs.rule != ours.rule || theirs.elements != ours.elements || theirs.max_weight != ours.max_weight ||
        theirs.updates_per_version != ours.updates_per_version || theirs.value_bits != ours.value_bits) {
      return InvalidArgument(
          "a partial of rule {} ({} elements, {} updates, weights to {}, 2^{}) cannot join one of rule {} ({} "
          "elements, {} updates, weights to {}, 2^{})",
          theirs.rule, theirs.elements, theirs.updates_per_version, theirs.max_weight, theirs.value_bits, ours.rule,
          ours.elements, ours.updates_per_version, ours.max_weight, ours.value_bits);
    }
    if (partial.sums.size() != state_.sums.size()) {
      return InvalidArgument("a partial has {} sums where {} belong", partial.sums.size(), state_.sums.size());
    }
    const auto tasks = static_cast<int64_t>(partial.tasks.size());
    if (tasks > ours.updates_per_version) {
      return InvalidArgument("a partial holds {} updates, more than the {} of a version", tasks,
                             ours.updates_per_version);
    }
    if (partial.weight_sum < tasks || partial.weight_sum > tasks * ours.max_weight) {
      return InvalidArgument("a partial of {} updates says that they weigh {}, which is not between {} and {}", tasks,
                             partial.weight_sum, tasks, tasks * ours.max_weight);
    }
    // Each update adds at most weight × 2^value_bits, a whole number of units. The product stays at or below 2^62.
    const int64_t bound = partial.weight_sum << (ours.value_bits + ours.fraction_bits());
    for (size_t i = 0; i < partial.sums.size(); ++i) {
      if (partial.sums[i] > bound || partial.sums[i] < -bound) {
        return InvalidArgument("a partial's sum {} at element {} is beyond what its weight of {} can give",
                               partial.sums[i], i, partial.weight_sum);
      }
    }
    if (partial.lost_nonzeros < 0 || partial.lost_nonzeros > partial.nonzeros ||
        partial.nonzeros / ours.elements > tasks) {
      return InvalidArgument("a partial counts {} lost of {} non-zero values, which cannot be", partial.lost_nonzeros,
                             partial.nonzeros);
    }
    for (const auto& [name, value] : partial.scalar_sums) {
      if (!std::isfinite(value)) return InvalidArgument("a partial reports {} = {}", name, value);
    }
    return absl::OkStatus();
  }

  Status Merge(const Partial& partial) override {
    RIVULET_RETURN_IF_ERROR(Check(partial));
    for (const TaskId& task : partial.tasks) {
      if (state_.tasks.contains(task)) {
        return FailedPrecondition("task '{}' of a partial was folded here already; it would count twice", task);
      }
    }
    RIVULET_RETURN_IF_ERROR(CheckRoom(partial.tasks.size()));
    // Unsigned, because the overflow of a signed sum would be undefined even where Check has excluded it.
    for (size_t i = 0; i < state_.sums.size(); ++i) {
      state_.sums[i] =
          static_cast<int64_t>(static_cast<uint64_t>(state_.sums[i]) + static_cast<uint64_t>(partial.sums[i]));
    }
    state_.weight_sum += partial.weight_sum;
    state_.lost_nonzeros += partial.lost_nonzeros;
    state_.nonzeros += partial.nonzeros;
    for (const auto& [name, value] : partial.scalar_sums) state_.scalar_sums[name] += value;
    state_.tasks.insert(partial.tasks.begin(), partial.tasks.end());
    return absl::OkStatus();
  }

  Partial Save() const override { return state_; }

  StatusOr<ServerInput> Finish() && override {
    const auto updates = static_cast<int64_t>(state_.tasks.size());
    if (updates < spec().min_updates) {
      return FailedPrecondition("{} of the {} updates that a commit needs (server.min_reports) were folded", updates,
                                spec().min_updates);
    }
    ServerInput input;
    input.weight_sum = state_.weight_sum;
    input.updates = updates;
    if (state_.nonzeros > 0) {
      input.lost_fraction = static_cast<double>(state_.lost_nonzeros) / static_cast<double>(state_.nonzeros);
    }
    input.mean_delta.resize(state_.sums.size());
    DivideSums(state_.sums, std::ldexp(static_cast<double>(state_.weight_sum), spec().fraction_bits()),
               input.mean_delta);
    return input;
  }

 private:
  const AggregationSpec& spec() const { return state_.spec; }

  // What can be told without reading the values.
  Status CheckForm(const UpdateView& update) const {
    if (update.task.empty()) return InvalidArgument("an update names no task");
    if (update.parts.size() != 1 || update.parts[0].name != kDelta) {
      return InvalidArgument("the update of task '{}' has {} parts{}; weighted_mean takes one, 'delta'", update.task,
                             update.parts.size(),
                             update.parts.empty() ? "" : fmt::format(", the first '{}'", update.parts[0].name));
    }
    const PartView& delta = update.parts[0];
    if (delta.encoding != Encoding::kF32) {
      return InvalidArgument("the delta of task '{}' has encoding {}; weighted_mean reads float32 (1)", update.task,
                             static_cast<uint32_t>(delta.encoding));
    }
    if (delta.data.size() != 4 * static_cast<size_t>(spec().elements)) {
      return InvalidArgument("the delta of task '{}' has {} bytes where {} float32 elements have {}", update.task,
                             delta.data.size(), spec().elements, 4 * spec().elements);
    }
    if (delta.weight < 1) {
      return InvalidArgument("the update of task '{}' weighs {}; a weight is at least 1", update.task, delta.weight);
    }
    if (delta.weight > spec().max_weight) {
      return InvalidArgument(
          "the update of task '{}' weighs {}, more than server.max_weight = {}; raise server.max_weight", update.task,
          delta.weight, spec().max_weight);
    }
    return absl::OkStatus();
  }

  Status CheckRoom(size_t more) const {
    if (state_.tasks.size() + more > static_cast<size_t>(spec().updates_per_version)) {
      return ResourceExhausted("{} updates were folded and {} more would exceed the {} of a version",
                               state_.tasks.size(), more, spec().updates_per_version);
    }
    return absl::OkStatus();
  }

  Partial state_;
};

StatusOr<std::unique_ptr<Aggregation>> CreateWeightedMean(const AggregationSpec& spec) {
  return std::make_unique<WeightedMean>(spec);
}

RIVULET_AGGREGATION("weighted_mean", CreateWeightedMean);

}  // namespace
}  // namespace rivulet
