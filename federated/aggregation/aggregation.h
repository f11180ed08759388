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

// Sums that are divided when their mean is read. Not thread-safe while noise is added.
class UndividedMean {
 public:
  virtual ~UndividedMean() = default;
  virtual int64_t elements() const = 0;
  // The sums in units of 2^-s, wire order, for noise that is added before the division. Empty for sums of 32 bits,
  // which have no room for noise.
  virtual std::span<int64_t> sums() = 0;
  // Writes the means from element `first` on, wire order.
  virtual void Divide(int64_t first, std::span<float> means) const = 0;
  // The sums' own memory, 64-byte aligned and, if long, at a large page. A caller may write the new model over sums
  // that are already divided: element i's sum ends at byte (i + 1) × memory().size() / elements(). Empty: the memory
  // must not be overwritten.
  virtual std::span<std::byte> memory() { return {}; }
};

// Result of aggregating a version's updates, as the input of the server optimizer.
struct ServerInput {
  struct Part {
    std::string name;
    // The sum over its denominator, wire order. Empty: no update had this optional part, or it is not divided
    // yet.
    std::vector<float> mean;
    std::shared_ptr<UndividedMean> undivided;  // only after FinishUndivided
    // Computes `mean` from `undivided`. No effect if `undivided` is null.
    void Divide();
    double denominator = 0;    // weights, tasks, … in users' units: without fraction bits and staleness bits
    double lost_fraction = 0;  // of non-zero coordinates lost to rounding; above 0.001 the caller warns
    double dropped_share = 0;  // of the squared norm of adapters' products, cut off by the rule "stack"
  };
  std::vector<Part> parts;                // in order of the spec's parts
  std::map<std::string, double> scalars;  // sums of weight × value, each rounded once; stale updates count less
  int64_t updates = 0;
  const Part* Find(std::string_view part) const;  // null: the plan has no such part
};

// The factor of a base version: round(2^8 × the weight of its staleness), 1 .. 2^8. Called only if the spec's
// staleness_bits is not 0.
using Staleness = std::function<int64_t(int64_t base_version)>;

// The version from which the updates' training started, for rules that need its values ("stack").
struct AggregationBase {
  // Factors of one product in wire order. A is [rows, rank] and B [rank, columns], row-major, or both
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
  // Creates the rule named `spec.rule`. NOT_FOUND: no such rule or codec; names the nearest. INVALID_ARGUMENT: as
  // ValidateSpec. Sums of "mean" that are not secure are stored in `files`; null: in memory.
  static StatusOr<std::unique_ptr<Aggregation>> Create(const AggregationSpec& spec,
                                                       std::shared_ptr<SumFiles> files = nullptr);

  const AggregationSpec& spec() const { return spec_; }

  // Tells whether `update` may be aggregated; no side effect. INVALID_ARGUMENT: a missing or unknown part, bytes that
  // its codec does not produce, a weight or scalar out of range, NaN or infinity, a value beyond the bound (names
  // server.value_bits or server.max_weight), or another base version in a synchronous run. Only this task is refused;
  // the aggregate is unchanged.
  virtual Status Check(const UpdateView& update, const Weights& weights) const = 0;
  struct Taken {
    double norm = 0;  // L2 norm of the part "delta", else of its first part; 0 for a task that was aggregated before
  };
  // Checks, measures and adds one update in a single pass over its memory, which is only read, during the call. A task
  // that was aggregated before is ignored. Errors are those of Check; INVALID_ARGUMENT: the update's norm exceeds the
  // spec's most_norm; RESOURCE_EXHAUSTED: more updates than updates_per_version, or no room for sums in a file. After
  // an error, the aggregate is as before the call.
  virtual StatusOr<Taken> Take(const UpdateView& update, const Weights& weights) = 0;
  Status Fold(const UpdateView& update, const Weights& weights) { return Take(update, weights).status(); }
  // Calls Take for each update in order and returns a result for each; refused updates leave the sums unchanged. Parts
  // that are computed while they are read (MadePart) are processed block by block for all updates, so that each block
  // of the sums is loaded once.
  virtual std::vector<StatusOr<Taken>> TakeTogether(std::span<const UpdateView> updates,
                                                    std::span<const Weights> weights);

  // Aggregators are not trusted: checks that a partial sum is possible within the bounds.
  virtual Status Check(const Partial& partial) const = 0;
  // FAILED_PRECONDITION: one of its tasks was already aggregated here. The first partial sum of a base version is moved
  // in, others are added.
  virtual Status Merge(Partial&& partial) = 0;
  Status Merge(const Partial& partial) { return Merge(Partial(partial)); }

  // Returns a copy of the state: one partial sum per base version, in ascending order; none is empty.
  virtual std::vector<Partial> Save() const = 0;
  // Removes and returns the partial sum of one base version, to be sent elsewhere. Empty if there is none.
  virtual Partial Extract(int64_t base_version) = 0;
  // Sets the base version's values. Call before Finish; only rules over whole updates use it.
  virtual void StartFrom(std::shared_ptr<const AggregationBase>) {}

  // Consumes this aggregation. FAILED_PRECONDITION: no update was aggregated, or a part's denominator is not above 0.
  virtual StatusOr<ServerInput> Finish(const Staleness& staleness) && = 0;
  // Like Finish, but leaves parts that need only a division undivided (Part::undivided). A caller that reads them
  // piecewise needs no memory for the whole mean.
  virtual StatusOr<ServerInput> FinishUndivided(const Staleness& staleness) && {
    return std::move(*this).Finish(staleness);
  }
  // For specs with staleness_bits 0.
  StatusOr<ServerInput> Finish() && { return std::move(*this).Finish(Staleness()); }

 protected:
  explicit Aggregation(AggregationSpec spec) : spec_(std::move(spec)) {}
  SumFiles* sum_files() const { return sum_files_.get(); }  // null: sums are in memory

 private:
  const AggregationSpec spec_;
  std::shared_ptr<SumFiles> sum_files_;
};

// Registers a rule: RIVULET_AGGREGATION("trimmed_mean", CreateTrimmedMean);
using AggregationFactory = StatusOr<std::unique_ptr<Aggregation>> (*)(const AggregationSpec&);
struct AggregationRegistration {
  AggregationRegistration(const char* rule, AggregationFactory factory);
};
#define RIVULET_AGGREGATION(rule, factory)                                                                             \
  [[maybe_unused]] static const ::rivulet::AggregationRegistration RIVULET_CONCAT_(rivulet_aggregation_, __COUNTER__)( \
      rule, factory)

}  // namespace rivulet
