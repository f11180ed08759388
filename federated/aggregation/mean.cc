// The mean of each part by its weights: federated averaging's rule (McMahan et al. 2017, Algorithm 1). With another
// denominator the same sums are FedBuff's (Nguyen et al. 2022) or DP-FedAvg's (McMahan et al. 2018).
#include <algorithm>
#include <cmath>
#include <memory>
#include <type_traits>
#include <utility>

#include "engine/base/check.h"
#include "federated/aggregation/gathering.h"

namespace rivulet {
namespace {

__extension__ using Wide = __int128;

// Bound of the sum for updates with the total weight `weight_sum`: each addend is at most its weight × 2^value_bits, in
// units of 2^-s. If that is a fraction of a unit, rounding at most doubles it. Below 2^62 in both cases.
int64_t SumBound(const AggregationSpec& spec, const PartSpec& part, int64_t weight_sum) {
  const int shift = part.value_bits + spec.fraction_bits(part);
  return shift >= 0 ? weight_sum << shift : weight_sum >> (-shift - 1);
}

// Calls `body` with the part's array of sums.
template <class P, class Body>
auto WithSums(P& part, const Body& body) {
  return part.sums.empty() ? body(part.sums32) : body(part.sums);
}

// total += factor × more. Unsigned, because overflow of a signed sum would be undefined behaviour even where Check has
// excluded it.
template <class Sum>
void AddTimes(std::span<Sum> total, std::span<const Sum> more, int64_t factor) {
  using Bits = std::make_unsigned_t<Sum>;
  const auto times = static_cast<Bits>(factor);
  std::ranges::transform(total, more, total.begin(), [times](Sum sum, Sum other) {
    return static_cast<Sum>(static_cast<Bits>(sum) + times * static_cast<Bits>(other));
  });
}

template <class Sums>
auto SumsOf(Sums& sums, int64_t first, int64_t count) {
  return std::span(sums).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
}

void AddTimes(PartSums& total, const PartSums& more, int64_t factor) {
  if (total.sums.empty()) {
    AddTimes(std::span(total.sums32), std::span(more.sums32), factor);
  } else {
    AddTimes(std::span(total.sums), std::span(more.sums), factor);
  }
}

class DividedSums final : public UndividedMean {
 public:
  DividedSums(PartSums sums, double denominator) : sums_(std::move(sums)), denominator_(denominator) {}
  int64_t elements() const override {
    return WithSums(sums_, [](const auto& sums) { return std::ssize(sums); });
  }
  std::span<int64_t> sums() override { return sums_.sums; }
  std::span<std::byte> memory() override {
    if (in_file()) return {};  // a model must not be stored in the sums' file
    return WithSums(sums_, [](auto& sums) { return std::as_writable_bytes(std::span(sums)); });
  }
  void Divide(int64_t first, std::span<float> means) const override {
    WithSums(sums_, [&](const auto& sums) { DivideSums(SumsOf(sums, first, std::ssize(means)), denominator_, means); });
  }

 private:
  bool in_file() const {
    return WithSums(sums_, [](const auto& sums) { return sums.in_file(); });
  }
  PartSums sums_;
  const double denominator_;
};

class Mean : public Gathering {
 public:
  Mean(const AggregationSpec& spec, PartCodecs codecs) : Gathering(spec, std::move(codecs)) {}

 protected:
  // weight × value is rounded once, to a multiple of 2^-s, and added as an integer. Integers have the same sum in any
  // order, so updates may be added as they arrive, by any number of threads, and partial sums may be merged. They can
  // also be subtracted exactly: an update with a bad value in any part is removed again without a trace, so no separate
  // pass has to check it first.
  Status AddPart(const UpdateView& update, const PartView& part, size_t p, int64_t weight, PartSums& into,
                 FoldState& fold) override {
    if (part.device_part != nullptr) {
      Status status;
      const Adding adding = {&update, &part, weight, &fold, &status};
      AddHeld({&adding, 1}, p, into);
      return status;
    }
    const double scale = ScaleOf(p, weight);
    const int value_bits = spec().parts[p].value_bits;
    if (const auto sparse = SparseOf(part, p)) {
      const int64_t taken = WithSums(
          into, [&](auto& sums) { return AddSparseToSums(*sparse, scale, value_bits, std::span(sums), fold); });
      if (taken == sparse->count) return absl::OkStatus();
      WithSums(into, [&](auto& sums) { SubtractSparseFromSums(*sparse, taken, scale, std::span(sums)); });
      return BadValue(update, p, sparse->index(taken), sparse->value(taken));
    }
    Status status;
    EachRun(part, p, [&](const FloatRun& run, int64_t first) {
      const int64_t taken = WithSums(
          into, [&](auto& sums) { return AddToSums(run, scale, value_bits, SumsOf(sums, first, run.count), fold); });
      if (taken < run.count) status = BadValue(update, p, first + taken, ValueOf(run, taken));
      return status.ok();
    });
    if (!status.ok()) UntakePart(part, p, fold.wire_index, weight, into);
    return status;
  }

  // Blocks in the outer loop, updates in the inner: the sums of a block are read and written once for all updates, and
  // each update's block is used where it was computed. Adding updates of 200,000 values one by one would move 3 MB of
  // sums for each update's 1.6 MB.
  void AddParts(std::span<const Adding> updates, size_t p, PartSums& into) override {
    const auto held_together = [&](const Adding& adding) {
      return adding.part->device_part != nullptr && adding.part->device_part == updates[0].part->device_part;
    };
    if (!updates.empty() && std::ranges::all_of(updates, held_together)) return AddHeld(updates, p, into);
    const auto alike = [&](const Adding& adding) {
      return adding.part->made != nullptr && adding.part->made->blocks() == updates[0].part->made->blocks();
    };
    if (updates.empty() || updates[0].part->made == nullptr || !std::ranges::all_of(updates, alike)) {
      return Gathering::AddParts(updates, p, into);
    }
    std::vector<double> scales;
    for (const Adding& adding : updates) scales.push_back(ScaleOf(p, adding.weight));
    for (size_t block = 0; block < updates[0].part->made->blocks(); ++block) {
      for (size_t i = 0; i < updates.size(); ++i) {
        const Adding& adding = updates[i];
        if (!adding.status->ok()) continue;
        const int64_t first = adding.state->wire_index;
        const FloatRun run = adding.part->made->Make(block);
        const int64_t taken = WithSums(into, [&](auto& sums) {
          return AddToSums(run, scales[i], spec().parts[p].value_bits, SumsOf(sums, first, run.count), *adding.state);
        });
        if (taken < run.count) *adding.status = BadValue(*adding.update, p, first + taken, ValueOf(run, taken));
      }
    }
    for (const Adding& adding : updates) {
      if (!adding.status->ok()) UntakePart(*adding.part, p, adding.state->wire_index, adding.weight, into);
    }
  }

  void RemovePart(const PartView& part, size_t p, int64_t weight, PartSums& from) override {
    if (part.device_part != nullptr) {
      FoldState state;
      const double scale = ScaleOf(p, weight);
      const auto removed = WithSums(from, [&](auto& sums) {
        return part.device_part->Fold({&part.number, 1}, {&scale, 1}, spec().parts[p].value_bits, -1, std::span(sums),
                                      {&state, 1});
      });
      // If this fails, the device is lost and no sum of this aggregation can be trusted.
      RIVULET_CHECK(removed.ok(), "an update cannot be taken out of a sum again: {}", Message(removed.status()));
      return;
    }
    if (const auto sparse = SparseOf(part, p)) {
      WithSums(from, [&](auto& sums) {
        SubtractSparseFromSums(*sparse, sparse->count, ScaleOf(p, weight), std::span(sums));
      });
      return;
    }
    UntakePart(part, p, spec().parts[p].elements, weight, from);
  }

  bool TakesDeviceParts() const override { return true; }

  Status CheckSums(const PartSpec& part, const PartSums& sums) const override {
    const auto elements = static_cast<size_t>(part.elements);
    const bool narrow = part.sum_bits == 32;
    if (sums.sums.size() != (narrow ? 0 : elements) || sums.sums32.size() != (narrow ? elements : 0)) {
      return InvalidArgument("a partial has {} sums of part '{}' where {} belong",
                             sums.sums.size() + sums.sums32.size(), part.name, part.elements);
    }
    const int64_t bound = SumBound(spec(), part, sums.weight_sum);
    RIVULET_RETURN_IF_ERROR(WithSums(sums, [&](const auto& values) -> Status {
      for (size_t i = 0; i < values.size(); ++i) {
        if (values[i] > bound || values[i] < -bound) {
          return InvalidArgument(
              "a partial sum's value {} at element {} of its {} is beyond the range of a weight of {}", values[i], i,
              part.name, sums.weight_sum);
        }
      }
      return absl::OkStatus();
    }));
    return CheckNorm(part, sums);
  }

  // Updates with norms up to C and weights W_k have a sum with a norm up to C · Σ W_k. Each addend was rounded by at
  // most half a unit.
  Status CheckNorm(const PartSpec& part, const PartSums& sums) const {
    if (spec().most_norm == 0) return absl::OkStatus();
    double squares = 0;
    WithSums(sums, [&](const auto& values) {
      for (const auto value : values) squares += static_cast<double>(value) * static_cast<double>(value);
    });
    const double unit = std::ldexp(1.0, -spec().fraction_bits(part));
    const double rounding =
        std::sqrt(static_cast<double>(part.elements)) * static_cast<double>(sums.updates) / 2 * unit;
    const double most = spec().most_norm * static_cast<double>(sums.weight_sum);
    const double norm = std::sqrt(squares) * unit;
    if (norm <= most * (1 + kNormRounding) + rounding) return absl::OkStatus();
    return InvalidArgument(
        "a partial sum's {} has the norm {}, more than the {} of updates of the total weight {} within the {} of "
        "privacy.clip; a client of its site does not clip",
        part.name, norm, most, sums.weight_sum, spec().most_norm);
  }

  void MergeSums(PartSums& into, PartSums&& more) override { AddTimes(into, more, 1); }

  // Σ k(b) × sum(b) over the denominator, which includes the same factors k: below 2^62 thanks to the staleness bits in
  // s. One base version without a factor is used directly as the total.
  Status FinishPart(size_t p, std::span<const Share> shares, const ServerInput& input,
                    ServerInput::Part& made) const override {
    const PartSpec& part = spec().parts[p];
    PartSums& total = *shares[0].sums;
    Wide weights = 0;
    for (const auto& [sums, factor, base] : shares) {
      weights += static_cast<Wide>(factor) * sums->weight_sum;
      if (sums != &total) {
        AddTimes(total, *sums, factor);
        *sums = PartSums();  // free its memory before the mean is allocated
      } else if (factor > 1) {
        AddTimes(total, total, factor - 1);
      }
    }
    // The denominator in users' units, and the shift between them and the sums' units, apart from 2^-s.
    const int unit = spec().weight_fraction_bits + spec().staleness_bits;
    double units = static_cast<double>(weights);
    switch (part.denominator.kind) {
      case Denominator::Kind::kWeights:
        made.denominator = std::ldexp(units, -unit);
        break;
      case Denominator::Kind::kTasks:
        made.denominator = static_cast<double>(input.updates);
        units = std::ldexp(made.denominator, unit);
        break;
      case Denominator::Kind::kConstant:
        made.denominator = part.denominator.constant;
        units = std::ldexp(made.denominator, unit);
        break;
      case Denominator::Kind::kScalar:
        made.denominator = input.scalars.at(part.denominator.scalar);
        RIVULET_RETURN_IF_ERROR(CheckDigits(part, input.updates, made.denominator));
        units = std::ldexp(made.denominator, unit);
        break;
    }
    if (!(units > 0)) {
      return FailedPrecondition("the denominator of part '{}' comes to {}; nothing can be divided by it", part.name,
                                made.denominator);
    }
    made.undivided =
        std::make_shared<DividedSums>(std::exchange(total, {}), std::ldexp(units, spec().fraction_bits(part)));
    return absl::OkStatus();
  }

 private:
  // Each update's values were rounded to a multiple of 2^-s and its scalar to one of 2^-32. These errors add up like a
  // random walk and are divided by the denominator: a small denominator would leave only rounding errors. The checks
  // below limit the mean's error to 2^-18 and the denominator's to a 4096th.
  Status CheckDigits(const PartSpec& part, int64_t updates, double denominator) const {
    const double least = std::sqrt(static_cast<double>(updates)) *
                         std::max(std::ldexp(1.0, 12 - 32), std::ldexp(1.0, 18 - spec().fraction_bits(part)));
    if (!(denominator > 0) || denominator >= least) return absl::OkStatus();
    return FailedPrecondition(
        "the denominator of part '{}' is {}. Sums of {} updates in steps of 2^-{} need {}, or rounding dominates their "
        "mean; lower server.value_bits. If clients weigh by losses, set algorithm.reference nearer to theirs",
        part.name, denominator, updates, spec().fraction_bits(part), least);
  }

  // Adds parts on a device, all updates in one call.
  void AddHeld(std::span<const Adding> updates, size_t p, PartSums& into) {
    std::vector<int32_t> numbers;
    std::vector<double> scales;
    std::vector<FoldState> states;
    for (const Adding& adding : updates) {
      numbers.push_back(adding.part->number);
      scales.push_back(ScaleOf(p, adding.weight));
      states.push_back(*adding.state);
    }
    const DevicePart& there = *updates[0].part->device_part;
    const auto folded = WithSums(into, [&](auto& sums) {
      return there.Fold(numbers, scales, spec().parts[p].value_bits, 1, std::span(sums), states);
    });
    for (size_t i = 0; i < updates.size(); ++i) {
      const Adding& adding = updates[i];
      if (!folded.ok()) {
        *adding.status = folded.status();
        continue;
      }
      const auto& [taken, bad] = (*folded)[i];
      *adding.state = states[i];
      if (taken < there.elements()) *adding.status = BadValue(*adding.update, p, taken, bad);
    }
  }

  double ScaleOf(size_t p, int64_t weight) const {
    return std::ldexp(static_cast<double>(weight), spec().fraction_bits(spec().parts[p]));
  }

  // Subtracts the first `taken` values.
  void UntakePart(const PartView& part, size_t p, int64_t taken, int64_t weight, PartSums& from) {
    const double scale = ScaleOf(p, weight);
    EachRun(part, p, [&](const FloatRun& run, int64_t first) {
      const int64_t count = std::min(run.count, taken - first);
      WithSums(from, [&](auto& sums) { SubtractFromSums(run, count, scale, SumsOf(sums, first, run.count)); });
      return first + run.count < taken;
    });
  }
};

StatusOr<std::unique_ptr<Aggregation>> CreateMean(const AggregationSpec& spec) {
  if (!spec.rule_settings.empty()) {
    return InvalidArgument("the aggregation rule 'mean' has no setting '{}'", spec.rule_settings.begin()->first);
  }
  RIVULET_ASSIGN_OR_RETURN(PartCodecs codecs, CodecsOf(spec));
  return std::make_unique<Mean>(spec, std::move(codecs));
}

RIVULET_AGGREGATION("mean", CreateMean);

}  // namespace
}  // namespace rivulet
