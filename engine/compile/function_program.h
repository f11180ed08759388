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

// A compiled function, with the mapping from its program's feeds, fetches and buffers to the function's interface.
struct FunctionProgram {
  std::shared_ptr<const Program> program;
  std::vector<int> feeds;      // per feed: index of the argument
  std::vector<int> fetches;    // per fetch: index of the result
  std::vector<int> variables;  // per resource argument, in order: index of the buffer; handles of one variable share it
  bool draws = false;          // the function draws random numbers
  bool writes = false;         // the function changes some variable
};
// Compiles a function. `handles` has a number per resource argument, in order; handles of one variable have the same
// number. `wanted`, per result, is false if the result is unused. Resources are never fetched.
StatusOr<FunctionProgram> CompileFunction(const Function& function, std::span<const KnownArgument> arguments,
                                          std::span<const int> handles, const std::vector<bool>& wanted,
                                          const CompileOptions& options);

// One instance of a FunctionProgram with its preallocated tables. Run allocates nothing.
class FunctionRun {
 public:
  explicit FunctionRun(const FunctionProgram& function);  // must outlive this object
  // Runs the function. `arguments` and `results` are addresses by index, null if not needed; `variables` has one per
  // resource argument. `call` separates this call's random draws from others: the node's index among the nodes that run
  // functions. `part` is 0 for a body and 1 for a loop's condition.
  Status Run(const KernelContext& context, std::byte* arena, std::span<std::byte* const> arguments,
             std::span<std::byte* const> results, uint32_t call, uint64_t iteration, int part = 0);

 private:
  Status CheckAliases(const KernelContext& context) const;

  const FunctionProgram& function_;
  StatusOr<std::unique_ptr<Instance>> instance_;
  std::vector<TensorView> feeds_, fetches_;
  std::vector<Buffer> buffers_;
};

// The random stream of one iteration of one call. Its key is derived from the run's key, the call's index and the
// iteration number. So each iteration draws new numbers, and they do not depend on earlier draws.
StreamKey StreamOfCall(const StreamKey& outer, uint32_t call, uint64_t iteration, int part);

}  // namespace rivulet
