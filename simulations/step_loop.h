// A client's training step, or a graph's computation, prepared for repeated runs by a measurement, with a scenario's
// data and initial values or with generated ones.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/program/program.h"
#include "setup/run_setup.h"

namespace rivulet {

class StepLoop {
 public:
  virtual ~StepLoop() = default;
  const std::string& title() const { return title_; }
  const std::string& data() const { return data_; }  // "writers of train.tfrecord", "made-up data"
  const Program& program() const { return *program_; }
  const Graph& graph() const { return graph_; }  // before the passes
  // The source line that built a node; "" if unknown.
  std::string SourceLine(const std::string& node) const;

  // Writes the inputs of step `step` (from 0) into the feeds.
  virtual Status Feed(int64_t step) = 0;
  // The bindings of the next run.
  Bindings& bindings() { return bindings_; }
  Status Run() {
    step_ = steps_run_++;
    return instance_->Run(bindings_);
  }

 protected:
  // Binds all except the feeds' values and the variables' memory.
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

// A client's step of the scenario, from a run's initial values. Batches of `batch` examples come from the training set,
// one after another; without `own_data` they are generated. The calling thread becomes a worker thread. Errors as
// RunSetup and CompileProgram.
StatusOr<std::unique_ptr<StepLoop>> MakeClientStepLoop(RunSetup& setup, int64_t batch, bool own_data);

// The computation of `signature` on `graph`, with generated data and variables. The calling thread becomes a worker
// thread. Errors as CompileProgram.
StatusOr<std::unique_ptr<StepLoop>> MakeGraphStepLoop(std::string title, Graph graph, const Signature& signature,
                                                      const KernelPolicy& kernels);

}  // namespace rivulet
