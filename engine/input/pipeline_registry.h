// Registry of dataset ops: each makes a pipeline from its node, once per run of the node or place in a plan. One op,
// one file:
//
//   StatusOr<std::shared_ptr<Pipeline>> MakeTake(PipelineArguments& arguments);
//   RIVULET_DATASET_OP("TakeDataset", MakeTake);
//
// The same makers serve graphs that are built into a pipeline as a whole (engine/input/build_pipeline.h): functions of
// InterleaveDataset, and a plan's input. They also serve a session, which runs each dataset op as an asynchronous op
// whose handle is a variant (dataflow/input/dataset_resource.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/philox.h"
#include "engine/graph/graph.h"
#include "engine/input/pipeline.h"
#include "engine/program/program.h"

namespace rivulet {

// Opens data by name: the only access from a graph to data. Thread-safe.
class BoundSources {
 public:
  virtual ~BoundSources() = default;
  // All records in order, or those of file `file` if that is not negative. NOT_FOUND: nothing is bound to the name.
  virtual StatusOr<std::shared_ptr<Pipeline>> Open(std::string_view name, int64_t file, std::string where) const = 0;
  // The number of files bound to the name.
  virtual StatusOr<int64_t> Files(std::string_view name) const = 0;
};

// State shared by all stages of one pipeline.
struct PipelineEnvironment {
  CompileOptions compile;  // for functions
  // Random stream for shuffles without seeds (0, 0) and for random ops in functions.
  StreamKey rng;
  std::shared_ptr<const BoundSources> bound;  // null: no data set is bound
};

struct PipelineArguments {
  const Node& node;
  const Graph& graph;                                     // has the functions
  std::vector<std::shared_ptr<const Pipeline>> datasets;  // variant inputs, in order
  std::vector<Tensor> tensors;                            // the other inputs, in order
  std::shared_ptr<const PipelineEnvironment> environment;
  // Counts the stages so far that draw random numbers, so that each has a separate stream.
  int* random_stages = nullptr;

  std::string where() const;
  // Tensor `i`, an int64 (or int32) scalar named `name`. INVALID_ARGUMENT: not such a scalar.
  StatusOr<int64_t> Integer(size_t i, std::string_view name) const;
  StatusOr<bool> Boolean(size_t i, std::string_view name) const;
  // output_types (or Toutput_types) and output_shapes of
  // the node; INVALID_ARGUMENT: their numbers differ.
  StatusOr<std::vector<TensorSpec>> OutputSpecs() const;
  // Combines the specs `computed` of elements with the node's
  // attributes. INVALID_ARGUMENT: they contradict each other.
  StatusOr<std::vector<TensorSpec>> Check(const std::vector<TensorSpec>& computed) const;
  // The function named by attribute `attr`. NOT_FOUND: the graph lacks it.
  StatusOr<std::shared_ptr<const Function>> FunctionOf(std::string_view attr) const;
  // A separate random stream for this stage.
  StreamKey NextStream() const;
};

using MakePipelineFn = std::function<StatusOr<std::shared_ptr<Pipeline>>(PipelineArguments&)>;

class PipelineRegistry {
 public:
  static PipelineRegistry& Global();
  // A second registration of an op stops the program with both places.
  void Register(std::string op, MakePipelineFn make, const char* file, int line);
  const MakePipelineFn* Find(std::string_view op) const;  // nullptr: not a dataset op

 private:
  struct Entry {
    MakePipelineFn make;
    std::string registered_at;
  };
  std::map<std::string, Entry, std::less<>> entries_;
};

namespace internal {
struct DatasetOpRegistration {
  DatasetOpRegistration(const char* op, MakePipelineFn make, const char* file, int line) {
    PipelineRegistry::Global().Register(op, std::move(make), file, line);
  }
};
}  // namespace internal

#define RIVULET_DATASET_OP(op, make) RIVULET_DATASET_IMPL_(__COUNTER__, op, make)
#define RIVULET_DATASET_IMPL_(counter, op, make) RIVULET_DATASET_IMPL2_(counter, op, make)
#define RIVULET_DATASET_IMPL2_(counter, op, make)                                                     \
  [[maybe_unused]] static const ::rivulet::internal::DatasetOpRegistration rivulet_dataset_##counter( \
      op, make, __FILE__, __LINE__)

}  // namespace rivulet
