// Folds client updates into one aggregate. Calls: (Take | Check Fold | Check Merge)* (Save | Extract | Finish).
//
// The result depends only on the set of folded updates, never on their order. Each addend is a pure function of
// (update, weight): weight × value, exact in double, is rounded once to a multiple of 2^-s and added as an integer; the
// sum of weights is an integer too. aggregation_spec.h has the arithmetic.
//
// Not thread-safe: shard updates over several aggregations and Merge their Partials.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "federated/aggregation/aggregation_spec.h"
#include "federated/aggregation/update.h"

namespace rivulet {

// What a fold has gathered: enough to go on elsewhere or later.
struct Partial {
  AggregationSpec spec;
  std::vector<int64_t> sums;    // two's complement, wrap-around
  std::vector<int32_t> sums32;  // instead of them where the spec's sum_bits is 32
  int64_t weight_sum = 0;       // in units of 2^-weight_fraction_bits
  std::set<TaskId> tasks;
  std::map<std::string, double> scalar_sums;  // weight × scalar, for reporting only
  int64_t lost_nonzeros = 0;                  // non-zero coordinates that rounding made zero
  int64_t nonzeros = 0;
  std::string Serialize() const;                           // with a SHA-256 at its end
  static StatusOr<Partial> Parse(std::string_view bytes);  // DATA_LOSS names what is wrong
};

struct ServerInput {
  std::vector<float> mean_delta;  // wire order
  int64_t weight_sum = 0;         // in units of 2^-weight_fraction_bits
  int64_t updates = 0;
  double lost_fraction = 0;  // of non-zero coordinates lost to rounding; above 0.001 the caller warns
};

class Aggregation {
 public:
  virtual ~Aggregation() = default;
  // The rule named `spec.rule`. NOT_FOUND names the nearest rule; INVALID_ARGUMENT names the field that is out of
  // range.
  static StatusOr<std::unique_ptr<Aggregation>> Create(const AggregationSpec& spec);

  // Tells whether `update` may be folded; no side effect.
  // INVALID_ARGUMENT: wrong sizes, encoding or weight, NaN or infinity, a value beyond the bound (names
  // server.value_bits or server.max_weight); this client alone is refused and the aggregate is unchanged.
  virtual Status Check(const UpdateView& update) const = 0;
  struct Taken {
    double norm = 0;  // L2, of the part "delta"; 0 of a task that was folded before
  };
  // Checks, measures and adds one update in a single pass over its memory, which is only read, during the call. A task
  // folded before is ignored. Errors are those of Check, and RESOURCE_EXHAUSTED: more updates than updates_per_version;
  // after one, the aggregate is what it was.
  virtual StatusOr<Taken> Take(const UpdateView& update) = 0;
  Status Fold(const UpdateView& update) { return Take(update).status(); }
  virtual Status Check(const Partial& partial) const = 0;  // a tier is not trusted either
  // FAILED_PRECONDITION: a task of it was folded here already. The first partial is moved in, others are added.
  virtual Status Merge(Partial&& partial) = 0;
  Status Merge(const Partial& partial) { return Merge(Partial(partial)); }
  virtual Partial Save() const = 0;
  // What has been gathered, and forgets it: for whoever hands it over.
  virtual Partial Extract() = 0;
  // Consumes this aggregation. FAILED_PRECONDITION before `min_updates` folds.
  virtual StatusOr<ServerInput> Finish() && = 0;
};

// For rules: RIVULET_AGGREGATION("weighted_mean", CreateWeightedMean);
using AggregationFactory = StatusOr<std::unique_ptr<Aggregation>> (*)(const AggregationSpec&);
struct AggregationRegistration {
  AggregationRegistration(const char* rule, AggregationFactory factory);
};
#define RIVULET_AGGREGATION(rule, factory) \
  [[maybe_unused]] static const ::rivulet::AggregationRegistration rivulet_aggregation_registration(rule, factory)

}  // namespace rivulet
