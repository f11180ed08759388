// The mean of deltas weighted by examples: federated averaging's rule (McMahan et al. 2017, Algorithm 1).
#include <cmath>
#include <type_traits>

#include "federated/aggregation/aggregation.h"
#include "federated/aggregation/fixed_point.h"

namespace rivulet {
namespace {

constexpr std::string_view kDelta = "delta";
// Scalars are for reporting, but a report that depended on the order of folds would make two equal runs look unequal.
// Multiples of 2^-20 add up exactly in double while their sum stays below 2^33.
constexpr double kScalarUnit = 0x1p-20;

double RoundedScalar(double weighted) { return std::nearbyint(weighted / kScalarUnit) * kScalarUnit; }

// What the addends of updates that weigh `weight_sum` together can come to: each is at most its weight × 2^value_bits
// in units of 2^-s. Where that is a fraction of a unit, rounding gives less than twice as much. Below 2^62 either way.
int64_t SumBound(const AggregationSpec& spec, int64_t weight_sum) {
  const int shift = spec.value_bits + spec.fraction_bits();
  return shift >= 0 ? weight_sum << shift : weight_sum >> (-shift - 1);
}

// Unsigned, because the overflow of a signed sum would be undefined even where Check has excluded it.
template <class Sum>
void AddWrapping(std::vector<Sum>& sums, const std::vector<Sum>& more) {
  using Bits = std::make_unsigned_t<Sum>;
  for (size_t i = 0; i < sums.size(); ++i) {
    sums[i] = static_cast<Sum>(static_cast<Bits>(sums[i]) + static_cast<Bits>(more[i]));
  }
}

std::string Describe(const AggregationSpec& spec) {
  return fmt::format("{} ({} elements, {} updates, weights to {} in 2^-{}, values to 2^{}, sums of {} bits less {})",
                     spec.rule, spec.elements, spec.updates_per_version, spec.max_weight, spec.weight_fraction_bits,
                     spec.value_bits, spec.sum_bits, spec.staleness_bits);
}

// Calls `body` with the sums that the spec of `partial` asks for.
template <class P, class Body>
auto WithSums(P& partial, const Body& body) {
  return partial.spec.sum_bits == 32 ? body(partial.sums32) : body(partial.sums);
}

class WeightedMean : public Aggregation {
 public:
  // Without sums until there is something to sum: who only takes a partial in needs none of its own.
  explicit WeightedMean(const AggregationSpec& spec) { state_.spec = spec; }

  Status Check(const UpdateView& update) const override {
    RIVULET_RETURN_IF_ERROR(CheckForm(update));
    FloatRun whole;
    int64_t index = 0;
    for (const FloatRun& run : RunsOf(update.parts[0], whole)) {
      const int64_t bad = FirstBad(run, spec().value_bits);
      if (bad < run.count) return BadValue(update, index + bad, ValueOf(run, bad));
      index += run.count;
    }
    return absl::OkStatus();
  }

  // weight × value is rounded once, to a multiple of 2^-s, and added as an integer. Integers add up to the same sum in
  // any order, which is why updates may be folded as they arrive, by any number of threads, and a partial may be
  // merged. They also forget: an update that turns out to be bad in the middle is taken away again, to the bit, so
  // nothing has to be read before anything is added.
  StatusOr<Taken> Take(const UpdateView& update) override {
    if (state_.tasks.contains(update.task)) return Taken{};
    RIVULET_RETURN_IF_ERROR(CheckForm(update));
    RIVULET_RETURN_IF_ERROR(CheckRoom(1));
    MakeSums(state_);
    const PartView& delta = update.parts[0];
    const double scale = std::ldexp(static_cast<double>(delta.weight), spec().fraction_bits());
    FloatRun whole;
    const std::span<const FloatRun> runs = RunsOf(delta, whole);
    FoldState fold;
    RIVULET_RETURN_IF_ERROR(WithSums(state_, [&](auto& sums) -> Status {
      const auto sums_of = [&](int64_t first, int64_t count) {
        return std::span(sums).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
      };
      for (size_t r = 0; r < runs.size(); ++r) {
        const int64_t first = fold.wire_index;
        const int64_t taken = TakeRun(runs[r], scale, spec().value_bits, sums_of(first, runs[r].count), fold);
        if (taken == runs[r].count) continue;
        UntakeRun(runs[r], taken, scale, sums_of(first, runs[r].count));
        int64_t end = first;
        for (size_t before = r; before-- > 0;) {
          end -= runs[before].count;
          UntakeRun(runs[before], runs[before].count, scale, sums_of(end, runs[before].count));
        }
        return BadValue(update, first + taken, ValueOf(runs[r], taken));
      }
      return absl::OkStatus();
    }));
    state_.nonzeros += fold.nonzeros;
    state_.lost_nonzeros += fold.lost;
    state_.weight_sum += delta.weight;
    const double weight = std::ldexp(static_cast<double>(delta.weight), -spec().weight_fraction_bits);
    for (const auto& [name, value] : update.scalars) state_.scalar_sums[name] += RoundedScalar(weight * value);
    state_.tasks.insert(update.task);
    return Taken{fold.Norm()};
  }

  // A partial comes from another process. Its digest says that it arrived whole; that what it claims is possible at all
  // can only be told from the bounds.
  Status Check(const Partial& partial) const override {
    const AggregationSpec& theirs = partial.spec;
    const AggregationSpec& ours = spec();
    if (theirs.rule != ours.rule || theirs.elements != ours.elements || theirs.max_weight != ours.max_weight ||
        theirs.updates_per_version != ours.updates_per_version || theirs.value_bits != ours.value_bits ||
        theirs.sum_bits != ours.sum_bits || theirs.weight_fraction_bits != ours.weight_fraction_bits ||
        theirs.staleness_bits != ours.staleness_bits) {
      return InvalidArgument("a partial of rule {} cannot join one of rule {}", Describe(theirs), Describe(ours));
    }
    const auto elements = static_cast<size_t>(ours.elements);
    const bool narrow = ours.sum_bits == 32;
    if (partial.sums.size() != (narrow ? 0 : elements) || partial.sums32.size() != (narrow ? elements : 0)) {
      return InvalidArgument("a partial has {} sums where {} belong", partial.sums.size() + partial.sums32.size(),
                             ours.elements);
    }
    const auto tasks = static_cast<int64_t>(partial.tasks.size());
    if (tasks > ours.updates_per_version) {
      return InvalidArgument("a partial holds {} updates, more than the {} of a version", tasks,
                             ours.updates_per_version);
    }
    if (partial.weight_sum < tasks || partial.weight_sum > tasks * ours.weight_bound()) {
      return InvalidArgument("a partial of {} updates says that they weigh {}, which is not between {} and {}", tasks,
                             partial.weight_sum, tasks, tasks * ours.weight_bound());
    }
    const int64_t bound = SumBound(ours, partial.weight_sum);
    RIVULET_RETURN_IF_ERROR(WithSums(partial, [&](const auto& sums) -> Status {
      for (size_t i = 0; i < sums.size(); ++i) {
        if (sums[i] > bound || sums[i] < -bound) {
          return InvalidArgument("a partial's sum {} at element {} is beyond what its weight of {} can give", sums[i],
                                 i, partial.weight_sum);
        }
      }
      return absl::OkStatus();
    }));
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

  using Aggregation::Merge;
  Status Merge(Partial&& partial) override {
    RIVULET_RETURN_IF_ERROR(Check(partial));
    if (state_.tasks.empty()) {
      const int64_t min_updates = spec().min_updates;  // of whoever finishes, not of whoever gathered
      state_ = std::move(partial);
      state_.spec.min_updates = min_updates;
      return absl::OkStatus();
    }
    for (const TaskId& task : partial.tasks) {
      if (state_.tasks.contains(task)) {
        return FailedPrecondition("task '{}' of a partial was folded here already; it would count twice", task);
      }
    }
    RIVULET_RETURN_IF_ERROR(CheckRoom(partial.tasks.size()));
    if (spec().sum_bits == 32) {
      AddWrapping(state_.sums32, partial.sums32);
    } else {
      AddWrapping(state_.sums, partial.sums);
    }
    state_.weight_sum += partial.weight_sum;
    state_.lost_nonzeros += partial.lost_nonzeros;
    state_.nonzeros += partial.nonzeros;
    for (const auto& [name, value] : partial.scalar_sums) state_.scalar_sums[name] += value;
    state_.tasks.insert(partial.tasks.begin(), partial.tasks.end());
    return absl::OkStatus();
  }

  Partial Save() const override {
    Partial copy = state_;
    MakeSums(copy);
    return copy;
  }

  Partial Extract() override {
    Partial taken = std::move(state_);
    MakeSums(taken);
    state_ = Partial();
    state_.spec = taken.spec;
    return taken;
  }

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
    MakeSums(state_);
    input.mean_delta.resize(static_cast<size_t>(spec().elements));
    const double denominator = std::ldexp(static_cast<double>(state_.weight_sum), spec().fraction_bits());
    WithSums(state_, [&](auto& sums) { DivideSums(sums, denominator, input.mean_delta); });
    return input;
  }

 private:
  const AggregationSpec& spec() const { return state_.spec; }

  static void MakeSums(Partial& partial) {
    WithSums(partial, [&](auto& sums) { sums.resize(static_cast<size_t>(partial.spec.elements)); });
  }

  // The runs of a part; `whole` is the memory for the one that encoded bytes are.
  static std::span<const FloatRun> RunsOf(const PartView& part, FloatRun& whole) {
    if (!part.runs.empty()) return part.runs;
    whole.values = reinterpret_cast<const float*>(part.data.data());
    whole.count = static_cast<int64_t>(part.data.size() / sizeof(float));
    return {&whole, 1};
  }

  Status BadValue(const UpdateView& update, int64_t index, float value) const {
    if (!std::isfinite(value)) {
      return InvalidArgument("the update of task '{}' has {} at element {} of its delta; its training diverged",
                             update.task, std::isnan(value) ? "NaN" : "infinity", index);
    }
    return InvalidArgument(
        "the update of task '{}' has {} at element {} of its delta, beyond ±2^{}; raise server.value_bits if that is "
        "no error",
        update.task, value, index, spec().value_bits);
  }

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
    if (!delta.runs.empty()) {
      int64_t elements = 0;
      for (const FloatRun& run : delta.runs) elements += run.count;
      if (elements != spec().elements || !delta.data.empty()) {
        return InvalidArgument("the delta of task '{}' has {} values in runs and {} bytes where {} values belong",
                               update.task, elements, delta.data.size(), spec().elements);
      }
    } else if (delta.data.size() != 4 * static_cast<size_t>(spec().elements)) {
      return InvalidArgument("the delta of task '{}' has {} bytes where {} float32 elements have {}", update.task,
                             delta.data.size(), spec().elements, 4 * spec().elements);
    }
    const int fraction_bits = spec().weight_fraction_bits;
    if (delta.weight < 1) {
      return InvalidArgument("the update of task '{}' weighs {}; a weight is at least {}", update.task, delta.weight,
                             std::ldexp(1.0, -fraction_bits));
    }
    if (delta.weight > spec().weight_bound()) {
      return InvalidArgument(
          "the update of task '{}' weighs {}, more than server.max_weight = {}; raise server.max_weight", update.task,
          std::ldexp(static_cast<double>(delta.weight), -fraction_bits), spec().max_weight);
    }
    for (const auto& [name, value] : update.scalars) {
      if (!std::isfinite(value)) {
        return InvalidArgument("the update of task '{}' reports {} = {}, which is not a number to report", update.task,
                               name, value);
      }
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
