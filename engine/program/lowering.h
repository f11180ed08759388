// Lowering of a concrete graph to calls of kernels over planned memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/program/concrete_graph.h"
#include "engine/program/kernel.h"
#include "engine/program/program.h"

namespace rivulet {

// An address that is known with a run's bindings: base + offset.
struct Location {
  enum class Base { kArena, kConstants, kFeed, kFetch, kBuffer };
  Base base = Base::kArena;
  int index = 0;  // of the feed, fetch or buffer
  size_t offset = 0;
};

struct Call {
  std::string node;  // for errors
  std::string op;
  std::unique_ptr<const Kernel> kernel;
  std::vector<Location> inputs, outputs, variables;
  bool has_scratch = false;
  Location scratch;
  bool stateful = false;  // needs the random stream and the step
  bool nested = false;    // needs the RunContext
  size_t variable_bytes = 0;
};

struct LoweredProgram {
  std::vector<Call> calls;
  AlignedBuffer constants;
  MemoryPlan memory;
  std::vector<Instruction> instructions;
  std::vector<bool> uses_buffer;  // by index in Bindings::buffers
  bool draws = false;             // whether an op draws random numbers
  double flops = 0;
};

// The use of the calls: one after the other, or by several lanes at once (engine/program/lanes.h). For lanes, updates
// of variables without later readers come last as separate steps, and their inputs live until the end.
enum class LowerFor { kRuns, kLanes };

// UNIMPLEMENTED: no kernel for a node; errors of a kernel's Prepare carry the node's name.
StatusOr<LoweredProgram> Lower(const ConcreteGraph& graph, const Signature& signature, const CompileOptions& options,
                               LowerFor purpose = LowerFor::kRuns);

}  // namespace rivulet
