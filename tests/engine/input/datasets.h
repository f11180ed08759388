// Helpers that build dataset nodes concisely, and read their elements.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/graph/function.h"
#include "engine/graph/scope.h"
#include "engine/input/build_pipeline.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {

inline AttrMap Elements(std::vector<DType> types = {DType::kInt64}, std::vector<Shape> shapes = {Shape{}}) {
  return {{"output_types", std::move(types)}, {"output_shapes", std::move(shapes)}};
}
inline AttrMap With(AttrMap attrs, AttrMap more) {
  attrs.merge(more);
  return attrs;
}

// Builds datasets in `scope`; elements are int64 scalars unless stated otherwise.
struct Datasets {
  const Scope& scope;
  Output Int(int64_t value) const { return scope.Const(Tensor::Scalar<int64_t>(value)); }
  Output Bool(bool value) const { return scope.Const(Tensor::Scalar<bool>(value)); }
  Output Range(int64_t stop) const {
    return scope.Op("RangeDataset", {Int(0), Int(stop), Int(1)}, Elements(), "range");
  }
  Output Count(const char* op, Output input, int64_t count, AttrMap elements = Elements()) const {
    return scope.Op(op, {input, Int(count)}, std::move(elements));
  }
  Output Shuffle(Output input, int64_t buffer, int64_t seed, int64_t seed2, bool reshuffle = true,
                 AttrMap elements = Elements()) const {
    return scope.Op("ShuffleDataset", {input, Int(buffer), Int(seed), Int(seed2)},
                    With(std::move(elements), {{"reshuffle_each_iteration", reshuffle}}), "shuffle");
  }
  Output Batch(Output input, int64_t size, bool drop, AttrMap elements) const {
    return scope.Op("BatchDatasetV2", {input, Int(size), Bool(drop)}, std::move(elements), "batch");
  }
  Output WithFunction(const char* op, const char* attr, std::vector<Output> inputs, const std::string& function,
                      AttrMap elements = Elements()) const {
    return scope.Op(op, std::move(inputs),
                    With(std::move(elements), {{attr, FunctionRef{function}}, {"Targuments", std::vector<DType>{}}}));
  }
};

// Adds a function of `arguments` to `graph`.
template <typename Body>
void AddFunction(Graph& graph, const std::string& name, std::vector<TensorSpec> arguments, const Body& body) {
  Graph inner;
  Scope scope(inner);
  std::vector<Output> values;
  for (size_t i = 0; i < arguments.size(); ++i)
    values.push_back(
        scope.Op("_Arg", {}, {{"T", arguments[i].dtype}, {"index", static_cast<int64_t>(i)}}, fmt::format("x{}", i)));
  std::vector<Output> results = body(scope, values);
  ASSERT_OK(scope.status());
  ASSERT_OK_AND_ASSIGN(auto function, Function::Create(name, std::move(inner), std::move(results)));
  ASSERT_OK(graph.AddFunction(function));
}

// Returns the int64 values of all elements' first components, flattened.
inline StatusOr<std::vector<std::vector<int64_t>>> Drain(const Pipeline& pipeline, const IteratorContext& context = {},
                                                         const CancellationToken& cancel = {}) {
  RIVULET_ASSIGN_OR_RETURN(const auto iterator, pipeline.MakeIterator(context));
  std::vector<std::vector<int64_t>> all;
  for (Element element;;) {
    RIVULET_ASSIGN_OR_RETURN(const bool more, iterator->Next(cancel, element));
    if (!more) return all;
    RIVULET_ASSIGN_OR_RETURN(const auto components, element.Components());
    const auto flat = components[0].tensor().flat<int64_t>();
    all.emplace_back(flat.begin(), flat.end());
  }
}

inline std::shared_ptr<PipelineEnvironment> Environment(uint32_t seed = 1) {
  auto environment = std::make_shared<PipelineEnvironment>();
  environment->rng.key.words = {seed, 0};
  return environment;
}

// Returns the elements of the dataset that `build(datasets, graph)` makes, each flattened.
template <typename Build>
StatusOr<std::vector<std::vector<int64_t>>> ElementsOfDataset(const Build& build, const IteratorContext& context = {},
                                                              uint32_t seed = 1) {
  auto graph = std::make_shared<Graph>();
  const Scope scope(*graph);
  const Output dataset = build(Datasets{scope}, *graph);
  RIVULET_RETURN_IF_ERROR(scope.status());
  RIVULET_ASSIGN_OR_RETURN(const auto pipeline,
                           BuildPipeline(std::shared_ptr<const Graph>(graph), dataset, Environment(seed)));
  return Drain(*pipeline, context);
}

// For scalar elements.
inline std::vector<int64_t> Flat(const std::vector<std::vector<int64_t>>& elements) {
  std::vector<int64_t> flat;
  for (const auto& element : elements) flat.insert(flat.end(), element.begin(), element.end());
  return flat;
}

}  // namespace rivulet::testing
