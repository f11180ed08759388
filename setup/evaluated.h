// What an evaluation fetches of each batch, and how batches come to measures: the same wherever they are run.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/program/program.h"
#include "federated/evaluation/evaluator.h"
#include "federated/plan/example_source.h"
#include "federated/plan/plan.h"

namespace rivulet {

// "test/loss", "test/<metric>". Immutable.
class Evaluated {
 public:
  explicit Evaluated(const Plan& plan);
  size_t size() const { return fetched_.size(); }
  // Of a batch of so many, over the model's arena as buffer 0.
  Signature SignatureFor(const Plan& plan, const ExampleDecoder& decoder, int64_t batch_size) const;
  // INVALID_ARGUMENT: a metric that is no floating scalar.
  Status Check(std::span<const TensorSpec> fetched) const;
  // What fetch `k` of a batch says: a mean, and of a rate how many are right.
  double ValueOf(size_t k, const TensorView& fetch) const;
  // `values`: batch by batch, one for each fetch, of batches of `batch_size` and a smaller last one, whose fetches are
  // `whole` and `rest`. Summed in order of the batches.
  std::map<std::string, Measure> MeasuresOf(std::span<const double> values, int64_t examples, int64_t batch_size,
                                            std::span<const TensorSpec> whole, std::span<const TensorSpec> rest) const;

 private:
  struct Fetched {
    std::string name, tensor;
    bool counted = false;  // a rate: the tensor holds a one or a zero for each of what it is over
  };
  static Fetched FetchedFor(const Graph& graph, const std::string& name, const std::string& tensor);
  std::vector<Fetched> fetched_;
};

}  // namespace rivulet
