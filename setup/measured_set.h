// Fetches of an evaluation batch, and the computation of measures from batches, the same on every device.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/models/metrics/metric.h"
#include "engine/program/program.h"
#include "federated/evaluation/evaluator.h"
#include "federated/plan/example_source.h"
#include "federated/plan/plan.h"

namespace rivulet {

// "<set>/loss", "<set>/<metric>". For a model of numeric targets with the metric "mse" also "<set>/r2", the explained
// share of the targets' variance: 1 - mse / variance, with the set's variance, averaged over several numbers. It is no
// mean over batches, but follows from one. Immutable.
class MeasuredSet {
 public:
  // `set` is the data set's name ("test"). Reads its targets if r2 needs them. INVALID_ARGUMENT: it is empty. Errors
  // name file, record and byte.
  static StatusOr<MeasuredSet> Of(const Plan& plan, const std::shared_ptr<const Dataset>& data, const std::string& set);
  size_t size() const { return fetched_.size(); }  // number of fetches
  size_t width() const { return width_; }          // and of values per batch
  // The signature for batches of this size, over BuffersOver(plan, model).
  Signature SignatureFor(const Plan& plan, const ExampleDecoder& decoder, int64_t batch_size) const;
  // INVALID_ARGUMENT: a metric that is no floating scalar.
  Status Check(std::span<const TensorSpec> fetched) const;
  // Writes the result of fetch `k` into the batch's values: a mean, for a rate the number of ones, or counts.
  void Read(size_t k, const TensorView& fetch, std::span<double> batch) const;
  // `values`: batch by batch, `width` values each, of batches of `batch_size` and a smaller last one, with the fetches
  // `whole` and `rest`. Summed in order of the batches.
  std::map<std::string, Measure> MeasuresOf(std::span<const double> values, int64_t examples, int64_t batch_size,
                                            std::span<const TensorSpec> whole, std::span<const TensorSpec> rest) const;

 private:
  struct Fetched {
    std::string name, tensor;
    bool counted = false;             // a rate: the tensor has a one or a zero per counted item
    FinishFunction finish = nullptr;  // of counts (engine/models/metrics/metric.h)
    size_t first = 0, width = 1;      // its values within a batch's
  };
  MeasuredSet(const Plan& plan, const std::string& set);
  static Fetched FetchedFor(const Graph& graph, const std::string& name, const std::string& tensor);
  std::string set_;
  std::vector<Fetched> fetched_;
  size_t width_ = 0;
  double target_variance_ = 0;  // 0: there is no r2
};

}  // namespace rivulet
