// One op's kernel, prepared as in a program, with separate memory: for benchmark rows beside those of programs.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/program/kernel.h"
#include "engine/tensor/spec_bytes.h"

namespace rivulet::bench {

// An input: its shape and, for an int32 vector of sizes, its values.
struct KernelInput {
  DType dtype = DType::kFloat32;
  Shape shape;
  std::vector<int32_t> sizes = {};
};
inline KernelInput SizesInput(const Shape& shape) {
  return {DType::kInt32, {shape.rank()}, std::vector<int32_t>(shape.dims().begin(), shape.dims().end())};
}

struct KernelRun {
  Graph graph;
  Prepared prepared;
  std::unique_ptr<KernelState> state;
  std::vector<AlignedBuffer> memory;
  std::vector<std::byte*> inputs, outputs;
  AlignedBuffer scratch;

  Status Run() {
    KernelContext context;
    context.inputs = inputs;
    context.outputs = outputs;
    context.scratch = scratch.data();
    context.state = state.get();
    return prepared.kernel->Run(context);
  }
};

// Inputs are filled with numbers in [0, 1]. Uses the float kernel.
inline StatusOr<std::unique_ptr<KernelRun>> MakeKernelRun(const std::string& op, const std::vector<KernelInput>& inputs,
                                                          AttrMap attrs) {
  auto run = std::make_unique<KernelRun>();
  std::vector<TensorSpec> specs;
  std::vector<Tensor> values(inputs.size());
  std::vector<const Tensor*> constants;
  std::vector<Output> edges;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const KernelInput& input = inputs[i];
    specs.push_back({input.dtype, input.shape});
    NodeSpec spec{.name = fmt::format("x{}", i), .op = input.sizes.empty() ? "Placeholder" : "Const", .inputs = {}};
    spec.attrs["dtype"] = input.dtype;
    if (input.sizes.empty()) {
      spec.attrs["shape"] = input.shape;
    } else {
      values[i] = Tensor::Of<int32_t>(input.shape, std::span<const int32_t>(input.sizes));
      spec.attrs["value"] = values[i];
    }
    constants.push_back(input.sizes.empty() ? nullptr : &values[i]);
    RIVULET_ASSIGN_OR_RETURN(Node * node, run->graph.AddNode(std::move(spec)));
    edges.push_back(node->output());
  }
  RIVULET_ASSIGN_OR_RETURN(Node * node,
                           run->graph.AddNode({.name = "op", .op = op, .inputs = edges, .attrs = std::move(attrs)}));
  RIVULET_ASSIGN_OR_RETURN(const PrepareFn* prepare, KernelRegistry::Global().Find(op, Device::kCpu, DType::kFloat32));
  RIVULET_ASSIGN_OR_RETURN(run->prepared, (*prepare)(NodeView{*node, specs, node->outputs(), {}, constants}, {}));
  run->state = run->prepared.kernel->NewState();
  run->scratch = AlignedBuffer(run->prepared.scratch_bytes);
  const auto buffer = [&](const TensorSpec& spec) {
    run->memory.emplace_back(TensorBytes(spec));
    float* numbers = reinterpret_cast<float*>(run->memory.back().data());
    for (size_t i = 0; i < run->memory.back().size() / sizeof(float); ++i)
      numbers[i] = static_cast<float>(i * 37 % 256) / 255;
    return run->memory.back().data();
  };
  for (const TensorSpec& spec : specs) run->inputs.push_back(buffer(spec));
  for (const TensorSpec& spec : node->outputs()) run->outputs.push_back(buffer(spec));
  return run;
}

// Processor time of this thread in seconds: other processes on the core would distort one side of a comparison.
inline double ThreadSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace rivulet::bench
