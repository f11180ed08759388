// A training step, or what a graph computes, ready to be run again and again: with a scenario's own data and first
// values, or with made-up ones.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/graph/source.h"
#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/program/program.h"

namespace rivulet {

class StepLoop {
 public:
  virtual ~StepLoop() = default;
  const std::string& title() const { return title_; }
  const std::string& data() const { return data_; }  // "writers of train.tfrecord", "made-up data"
  const Program& program() const { return *program_; }
  const Graph& graph() const { return graph_; }  // as it was before the passes
  // The line that built a node, where it is known; "" otherwise.
  std::string SourceLine(const std::string& node) const;

  // Puts the inputs of step `step` (from 0) into place.
  virtual Status Feed(int64_t step) = 0;
  // For the next run.
  Bindings& bindings() { return bindings_; }
  Status Run() {
    step_ = steps_run_++;
    return instance_->Run(bindings_);
  }

 protected:
  // Binds everything but the feeds' values and the variables' memory.
  Status Bind(std::shared_ptr<const Program> program, std::vector<AlignedBuffer> memory);

  std::string title_, data_;
  Graph graph_;
  std::map<std::string, std::string> source_lines_;
  std::shared_ptr<const Program> program_;
  std::unique_ptr<Instance> instance_;
  std::vector<AlignedBuffer> memory_;
  std::vector<Buffer> buffers_;
  AlignedBuffer arena_;
  std::vector<Tensor> feed_tensors_, fetch_tensors_;
  std::vector<TensorView> feeds_, fetches_;
  StreamKey rng_;
  uint64_t step_ = 0, steps_run_ = 0;
  Bindings bindings_;
};

// With options.training: a client's step of a scenario or preset (first values and, of a scenario, data as in a run),
// or of a graph file its loss, gradients and SGD. Without: what `rivulet graph inspect` shows, on made-up data. The
// calling thread becomes a worker thread. Errors as LoadGraphSource, BuildPlan and CompileProgram; those of the data.
StatusOr<std::unique_ptr<StepLoop>> MakeStepLoop(const GraphSourceOptions& options);

}  // namespace rivulet
