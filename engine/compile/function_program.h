// Functions inside programs: the program compiled from a function's body, and its runs. A function is compiled for the
// shapes and known values of one call; engine/program/function_site.h determines them.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/function_call.h"
#include "engine/program/program.h"

namespace rivulet {

// A compiled function and how it is fed.
struct FunctionProgram {
  std::shared_ptr<const Program> program;
  std::vector<int> feeds;      // per feed: the argument
  std::vector<int> fetches;    // per fetch: the result
  std::vector<int> variables;  // per resource argument, in order: the buffer, which those of one variable share
  bool draws = false;          // random numbers
  bool writes = false;         // changes some variable
};
// `handles`, per resource argument in order: a number that handles of one variable share. `wanted`, per result: false
// where nobody reads it; resources are never fetched.
StatusOr<FunctionProgram> CompileFunction(const Function& function, std::span<const KnownArgument> arguments,
                                          std::span<const int> handles, const std::vector<bool>& wanted,
                                          const CompileOptions& options);

// One instance of a FunctionProgram, and the tables that it is run with. Run allocates nothing.
class FunctionRun {
 public:
  explicit FunctionRun(const FunctionProgram& function);  // which must outlive it
  // `arguments` and `results`: addresses by index, null where none is needed; `variables`: per resource argument.
  // `call` tells the draws of this call from all others: the node's place among those that run functions. `part`: 0 for
  // a body, 1 for a loop's condition.
  Status Run(const KernelContext& context, std::byte* arena, std::span<std::byte* const> arguments,
             std::span<std::byte* const> results, uint32_t call, uint64_t iteration, int part = 0);

 private:
  Status CheckAliases(const KernelContext& context) const;

  const FunctionProgram& function_;
  StatusOr<std::unique_ptr<Instance>> instance_;
  std::vector<TensorView> feeds_, fetches_;
  std::vector<Buffer> buffers_;
};

// The stream of one iteration of one call: a key of its own, drawn from the run's with the call's place and the
// iteration as the counter, so that every iteration draws anew, and the same whatever ran before it.
StreamKey StreamOfCall(const StreamKey& outer, uint32_t call, uint64_t iteration, int part);

}  // namespace rivulet
