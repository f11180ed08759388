// Runs one op on given tensors through a compiled program, and makes random tensors for it.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/base/philox.h"
#include "engine/compile/compile.h"
#include "engine/graph/graph.h"
#include "engine/program/program.h"

namespace rivulet::testing {

struct OpRun {
  std::vector<Tensor> outputs;
  std::string implementation;
};

// Inputs in `constants` become Const nodes; the others are fed. Feeds and fetches start `misalign` bytes after a
// multiple of 64.
inline StatusOr<OpRun> RunOp(const std::string& op, const std::vector<Tensor>& inputs, AttrMap attrs = {},
                             KernelPolicy policy = {}, std::vector<int> constants = {}, size_t misalign = 0) {
  EnterWorkerThread();
  Graph graph;
  std::vector<Output> edges;
  Signature signature;
  std::vector<AlignedBuffer> memory;
  std::vector<TensorView> feeds, fetches;
  const auto view = [&](const TensorSpec& spec) {
    // Each tensor is surrounded by bytes that read as NaN and must not change.
    memory.emplace_back(static_cast<size_t>(spec.shape.elements()) * SizeOf(spec.dtype) + 128);
    std::memset(memory.back().data(), 0xFF, memory.back().size());
    return TensorView{memory.back().data() + misalign, spec.dtype, spec.shape};
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string name = fmt::format("input{}", i);
    const bool constant = std::find(constants.begin(), constants.end(), static_cast<int>(i)) != constants.end();
    NodeSpec spec;
    spec.name = name;
    spec.op = constant ? "Const" : "Placeholder";
    spec.attrs["dtype"] = inputs[i].dtype();
    if (constant) {
      spec.attrs["value"] = inputs[i];
    } else {
      spec.attrs["shape"] = inputs[i].shape();
      signature.feeds.push_back({name, {inputs[i].dtype(), inputs[i].shape()}});
      feeds.push_back(view(signature.feeds.back().spec));
      if (inputs[i].bytes() > 0) std::memcpy(feeds.back().data, inputs[i].data(), inputs[i].bytes());
    }
    RIVULET_ASSIGN_OR_RETURN(Node * node, graph.AddNode(std::move(spec)));
    edges.push_back(node->output());
  }
  RIVULET_ASSIGN_OR_RETURN(Node * node,
                           graph.AddNode({.name = "op", .op = op, .inputs = edges, .attrs = std::move(attrs)}));
  for (size_t port = 0; port < node->outputs().size(); ++port) signature.fetches.push_back(fmt::format("op:{}", port));
  CompileOptions options;
  options.kernels = policy;
  RIVULET_ASSIGN_OR_RETURN(const auto program, CompileProgram(graph, signature, options));
  for (const TensorSpec& spec : program->fetch_specs()) fetches.push_back(view(spec));
  RIVULET_ASSIGN_OR_RETURN(const auto instance, program->Instantiate());
  AlignedBuffer arena(program->memory().arena_bytes);
  Bindings bindings;
  bindings.arena = arena.data();
  bindings.feeds = feeds;
  bindings.fetches = fetches;
  RIVULET_RETURN_IF_ERROR(instance->Run(bindings));
  OpRun run;
  if (!program->instructions().empty()) run.implementation = program->instructions()[0].implementation;
  for (size_t i = 0; i < memory.size(); ++i) {
    const size_t bytes = memory[i].size() - 128;
    for (size_t byte = 0; byte < memory[i].size(); ++byte) {
      if (byte == misalign) byte += bytes;
      if (memory[i].data()[byte] != std::byte{0xFF}) return Internal("byte {} beside tensor {} was written", byte, i);
    }
  }
  for (const TensorView& fetch : fetches) {
    Tensor tensor(fetch.dtype, fetch.shape);
    if (tensor.bytes() > 0) std::memcpy(tensor.data(), fetch.data, tensor.bytes());
    run.outputs.push_back(std::move(tensor));
  }
  return run;
}

// Uniform in [-1, 1), by Philox: the same in every run.
template <typename T>
Tensor RandomTensor(Shape shape, uint32_t seed) {
  Tensor tensor(kDTypeOf<T>, std::move(shape));
  const PhiloxKey key{{seed, 17}};
  const std::span<T> values = tensor.flat<T>();
  for (size_t i = 0; i < values.size(); ++i) {
    const PhiloxBlock block = Philox4x32(key, {static_cast<uint32_t>(i / 4), 0, 0, 0});
    values[i] = static_cast<T>(UniformFloat(block[i % 4]) * 2 - 1);
  }
  return tensor;
}

template <typename T>
std::vector<double> AsDoubles(const Tensor& tensor) {
  const std::span<const T> values = tensor.flat<T>();
  return {values.begin(), values.end()};
}

// Expects |actual - expected| <= tolerance everywhere; reports the first violation.
template <typename T>
void ExpectNear(const Tensor& actual, const std::vector<double>& expected, double tolerance, const std::string& what) {
  const std::span<const T> values = actual.flat<T>();
  ASSERT_EQ(values.size(), expected.size()) << what;
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_LE(std::abs(static_cast<double>(values[i]) - expected[i]), tolerance)
        << what << ": element " << i << " is " << values[i] << ", expected " << expected[i];
  }
}

}  // namespace rivulet::testing
