// Compiles a graph for a signature and runs it with its own memory.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine/compile/compile.h"
#include "engine/graph/graph.h"
#include "engine/graph/scope.h"
#include "engine/program/program.h"
#include "tests/testing/tensors.h"

namespace rivulet::testing {

class Runner {
 public:
  // Buffers of `buffer_floats` float32 each, zero.
  static StatusOr<std::unique_ptr<Runner>> Create(const Graph& graph, Signature signature,
                                                  std::vector<size_t> buffer_floats = {}, KernelPolicy policy = {}) {
    EnterWorkerThread();
    auto runner = std::make_unique<Runner>();
    CompileOptions options;
    options.kernels = policy;
    RIVULET_ASSIGN_OR_RETURN(runner->program, CompileProgram(graph, signature, options));
    RIVULET_ASSIGN_OR_RETURN(runner->instance, runner->program->Instantiate());
    runner->arena = AlignedBuffer(runner->program->memory().arena_bytes);
    for (const size_t floats : buffer_floats) runner->memory.emplace_back(floats * sizeof(float));
    for (AlignedBuffer& buffer : runner->memory) runner->buffers.push_back({buffer.data()});
    for (const TensorSpec& spec : runner->program->fetch_specs()) runner->fetched.emplace_back(spec.dtype, spec.shape);
    for (Tensor& tensor : runner->fetched) runner->fetches.push_back(tensor.view());
    return runner;
  }

  std::span<float> floats(size_t buffer) {
    return {reinterpret_cast<float*>(memory[buffer].data()), memory[buffer].size() / sizeof(float)};
  }

  Bindings bindings(const std::vector<Tensor>& inputs = {}) {
    feeds.clear();
    for (const Tensor& input : inputs) feeds.push_back(input.view());
    Bindings made;
    made.arena = arena.data();
    made.buffers = buffers;
    made.feeds = feeds;
    made.fetches = fetches;
    made.rng = {&rng, 1};
    made.step = {&step, 1};
    return made;
  }

  Status Run(const std::vector<Tensor>& inputs = {}, const CancellationToken& cancel = {}) {
    // The contents of the arena must not affect the next run.
    if (arena.size() > 0) std::memset(arena.data(), 0xA5, arena.size());
    return instance->Run(bindings(inputs), cancel);
  }

  int Count(std::string_view implementation) const {
    int count = 0;
    for (const Instruction& instruction : program->instructions())
      count += instruction.implementation == implementation;
    return count;
  }

  std::shared_ptr<const Program> program;
  std::unique_ptr<Instance> instance;
  AlignedBuffer arena;
  std::vector<AlignedBuffer> memory;
  std::vector<Buffer> buffers;
  std::vector<Tensor> fetched;
  std::vector<TensorView> feeds, fetches;
  StreamKey rng;
  uint64_t step = 0;
};

inline Output VariableHandle(const Scope& scope, const std::string& name, Shape shape) {
  return scope.Op("VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", std::move(shape)}, {"shared_name", name}},
                  name);
}
inline Output ReadVariable(const Scope& scope, Output handle) {
  return scope.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}});
}

}  // namespace rivulet::testing
