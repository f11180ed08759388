// Aggregation of updates into one sum. Calls: (Take | Check Fold | Check Merge)* (Save | Extract | Finish).
//
// The result depends only on the set of aggregated updates and their weights. Their order, their division over partial
// sums and the aggregating process do not matter. Each addend is a pure function of (update, weight): weight × value,
// exact in double, is rounded once to a multiple of 2^-s and added as an integer. Weights and scalars are added as
// integers too. aggregation_spec.h has the arithmetic.
//
// Staleness enters after the sums: one sum is kept for each base version, and Finish multiplies each by its factor, in
// integers. So the aggregating code, here or in another process, needs no knowledge of staleness.
//
// Idempotent by task. Not thread-safe: shard updates over several aggregations and Merge their Partials.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "federated/aggregation/aggregation_spec.h"
#include "federated/aggregation/partial.h"
#include "federated/aggregation/update.h"

namespace rivulet {

// Sums that are divided where their mean is read. Not thread-safe while noise is added.
class UndividedMean {
 public:
  virtual ~UndividedMean() = default;
  virtual int64_t elements() const = 0;
  // The sums in units of 2^-s, wire order, for noise that is added before any division. Empty: of 32 bits, which leave
  // no room for noise.
  virtual std::span<int64_t> sums() = 0;
  // The means from element `first` on, wire order.
  virtual void Divide(int64_t first, std::span<float> means) const = 0;
  // The sums' own memory, which is 64-byte aligned and at a large page where it is long. The model that is made of the
  // sums may be written over those that are divided: element i's sum ends at byte (i + 1) × memory().size() /
  // elements(). Empty: there is none to write over.
  virtual std::span<std::byte> memory() { return {}; }
};

// What a version's updates come to.
struct ServerInput {
  struct Part {
    std::string name;
    // The sum over its denominator, wire order; empty: no update had this part, which is optional, or it is not divided
    // yet.
    std::vector<float> mean;
    std::shared_ptr<UndividedMean> undivided;  // after FinishUndivided alone
    // Makes `mean` of it. Without effect where there is none.
    void Divide();
    double denominator = 0;    // weights, tasks, … as people count them: without fractions and factors
    double lost_fraction = 0;  // of non-zero coordinates lost to rounding; above 0.001 the caller warns
    double dropped_share = 0;  // of the squared norm of adapters' products, cut off by the rule "stack"
  };
  std::vector<Part> parts;                // in order of the spec's
  std::map<std::string, double> scalars;  // sums of weight × value, each rounded once; stale ones count less
  int64_t updates = 0;
  const Part* Find(std::string_view part) const;  // null: the plan has no such part
};

// The factor of a base version: round(2^8 × the weight of its staleness), 1 .. 2^8. Asked where the spec's
// staleness_bits is not 0.
using Staleness = std::function<int64_t(int64_t base_version)>;

// The version that updates are changes of, for rules that need it: "stack".
struct AggregationBase {
  // Factors of one product, as they lie in wire order. A is [rows, rank] and B [rank, columns], row-major, or both
  // transposed.
  struct Pair {
    int64_t a = 0, b = 0;  // elements before them
    int64_t rows = 0, rank = 0, columns = 0;
    bool transposed = false;
  };
  std::vector<float> values;  // wire order
  std::vector<Pair> pairs;
};

class Aggregation {
 public:
  virtual ~Aggregation() = default;
  // The rule named `spec.rule`. NOT_FOUND names the nearest rule, or codec; INVALID_ARGUMENT as ValidateSpec.
  // Sums of "mean" that are not secure are in `files`; null: in memory.
  static StatusOr<std::unique_ptr<Aggregation>> Create(const AggregationSpec& spec,
                                                       std::shared_ptr<SumFiles> files = nullptr);

  const AggregationSpec& spec() const { return spec_; }

  // Tells whether `update` may be folded; no side effect.
  // INVALID_ARGUMENT: a part that is missing, unknown or not as its codec makes it, a weight or a scalar out of range,
  // NaN or infinity, a value beyond the bound (names server.value_bits or server.max_weight), another base
  // version where there is but one; this task alone is refused and the aggregate is unchanged.
  virtual Status Check(const UpdateView& update, const Weights& weights) const = 0;
  struct Taken {
    double norm = 0;  // L2, of the part "delta", else of the first that it has; 0 of a task that was folded before
  };
  // Checks, measures and adds one update in a single pass over its memory, which is only read, during the call. A task
  // folded before is ignored. Errors are those of Check, INVALID_ARGUMENT where the update is longer than the spec's
  // most_norm, and RESOURCE_EXHAUSTED: more updates than updates_per_version, or no room for sums in a file; after one,
  // the aggregate is what it was.
  virtual StatusOr<Taken> Take(const UpdateView& update, const Weights& weights) = 0;
  Status Fold(const UpdateView& update, const Weights& weights) { return Take(update, weights).status(); }
  // As Take of each, one after the other, with an answer for each; what is refused leaves nothing behind. Where the
  // parts are made while they are read (MadePart), block by block for all updates: so each stretch of the sums comes
  // near once for all of them.
  virtual std::vector<StatusOr<Taken>> TakeTogether(std::span<const UpdateView> updates,
                                                    std::span<const Weights> weights);

  // An aggregator is not trusted either: that a partial's claims are possible at all is told from the bounds.
  virtual Status Check(const Partial& partial) const = 0;
  // FAILED_PRECONDITION: a task of it was folded here already. The first partial of a base version is moved in, others
  // are added.
  virtual Status Merge(Partial&& partial) = 0;
  Status Merge(const Partial& partial) { return Merge(Partial(partial)); }

  // A copy of what has been gathered, a partial a base version, in their order; none of which is empty.
  virtual std::vector<Partial> Save() const = 0;
  // What has been gathered from one base version, and forgets it: for whoever hands it over. Empty: nothing was.
  virtual Partial Extract(int64_t base_version) = 0;
  // Before Finish; only rules over updates look at it.
  virtual void StartFrom(std::shared_ptr<const AggregationBase>) {}

  // Consumes this aggregation. FAILED_PRECONDITION: nothing was folded, or a part's denominator is not above 0.
  virtual StatusOr<ServerInput> Finish(const Staleness& staleness) && = 0;
  // The same, but the mean of a part that only has to be divided is not made yet (Part::undivided): for whoever reads
  // it a stretch at a time, and then needs no memory for the whole.
  virtual StatusOr<ServerInput> FinishUndivided(const Staleness& staleness) && {
    return std::move(*this).Finish(staleness);
  }
  // Where the spec's staleness_bits is 0.
  StatusOr<ServerInput> Finish() && { return std::move(*this).Finish(Staleness()); }

 protected:
  explicit Aggregation(AggregationSpec spec) : spec_(std::move(spec)) {}
  SumFiles* sum_files() const { return sum_files_.get(); }  // null: sums are in memory

 private:
  const AggregationSpec spec_;
  std::shared_ptr<SumFiles> sum_files_;
};

// For rules: RIVULET_AGGREGATION("trimmed_mean", CreateTrimmedMean);
using AggregationFactory = StatusOr<std::unique_ptr<Aggregation>> (*)(const AggregationSpec&);
struct AggregationRegistration {
  AggregationRegistration(const char* rule, AggregationFactory factory);
};
#define RIVULET_AGGREGATION(rule, factory)                                                                             \
  [[maybe_unused]] static const ::rivulet::AggregationRegistration RIVULET_CONCAT_(rivulet_aggregation_, __COUNTER__)( \
      rule, factory)

}  // namespace rivulet
