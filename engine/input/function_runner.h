// Runner of tensor functions (for MapDataset, FilterDataset) as compiled programs, one for each set of argument shapes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/graph/function.h"
#include "engine/input/pipeline.h"
#include "engine/program/program.h"

namespace rivulet {

// Immutable apart from its programs; shared by all iterators of a pipeline.
class FunctionRunner {
 public:
  // Computes `results`, tensors of `body`, whose arguments are its "_Arg" nodes. `where` starts messages.
  FunctionRunner(std::shared_ptr<const Graph> body, std::vector<Node*> arguments, std::vector<Output> results,
                 std::vector<Node*> control_results, CompileOptions options, StreamKey rng, std::string where);
  static std::shared_ptr<FunctionRunner> Of(const Function& function, const CompileOptions& options,
                                            const StreamKey& rng, std::string where);

  // Instances of one thread.
  class State {
   private:
    friend class FunctionRunner;
    struct Bound {
      std::shared_ptr<const Program> program;
      std::unique_ptr<Instance> instance;
      AlignedBuffer arena;
    };
    std::map<std::string, Bound> by_shapes_;
  };
  // Number of the call, for random ops: the `step`th of an iteration over the data.
  struct CallNumber {
    uint32_t iteration = 0;
    uint64_t step = 0;
  };
  // INVALID_ARGUMENT: arguments of another number or type, or strings among them; else errors of compiling and running.
  // RESOURCE_EXHAUSTED: too many different shapes.
  StatusOr<std::vector<Component>> Run(std::span<const Component> arguments, const CallNumber& number,
                                       const InputBudget* budget, const CancellationToken& cancel, State& state) const;

 private:
  StatusOr<std::shared_ptr<const Program>> ProgramFor(std::span<const Component> arguments,
                                                      const std::string& key) const;
  const std::shared_ptr<const Graph> body_;
  const std::vector<Node*> arguments_;
  const std::vector<Output> results_;
  const std::vector<Node*> control_results_;
  const CompileOptions options_;
  const StreamKey rng_;
  const std::string where_;
  mutable Mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<const Program>> programs_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
