// Evaluator of a committed model on a device. The test set is stored there, and its batches are lanes that share the
// weights, as many at once as the memory allows.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/dataset.h"
#include "engine/gpu/gpu_device.h"
#include "engine/program/gpu_program.h"
#include "federated/evaluation/evaluator.h"
#include "setup/measured_set.h"

namespace rivulet {

// One Evaluate at a time.
class GpuEvaluator : public Evaluator {
 public:
  // Decodes the test set and copies it to the device, where it stays. Errors as CentralEvaluator::Create, and those of
  // compiling for a device (UNIMPLEMENTED names an op without a kernel). RESOURCE_EXHAUSTED: the test set does not fit.
  static StatusOr<std::unique_ptr<GpuEvaluator>> Create(std::shared_ptr<const Plan> plan,
                                                        std::shared_ptr<const Dataset> test, int64_t batch_size,
                                                        std::shared_ptr<GpuDevice> device,
                                                        const std::string& set = "test");

  // Means over the examples, summed as in CentralEvaluator; the same for any number of simultaneous batches.
  StatusOr<std::map<std::string, Measure>> Evaluate(const Model& model) override;

 private:
  static constexpr int64_t kMostLanes = 64;
  // The program for one batch size.
  struct Part {
    std::shared_ptr<const GpuProgram> program;
    std::unique_ptr<GpuInstance> instance;
  };

  GpuEvaluator(std::shared_ptr<const Plan> plan, std::shared_ptr<GpuDevice> device, MeasuredSet evaluated)
      : plan_(std::move(plan)), device_(std::move(device)), evaluated_(std::move(evaluated)) {}
  Status Prepare(std::shared_ptr<const Dataset> test, int64_t batch_size);
  StatusOr<Part> Compile(const ExampleDecoder& decoder, int64_t batch_size);
  Status BringExamples(const std::shared_ptr<const Dataset>& test,
                       const std::shared_ptr<const ExampleDecoder>& decoder);
  // Runs batches first … first + lanes - 1, all of the part's size.
  Status Run(const Part& part, int64_t first, int64_t lanes);
  int64_t batches() const { return (examples_ + batch_size_ - 1) / batch_size_; }

  const std::shared_ptr<const Plan> plan_;
  const std::shared_ptr<GpuDevice> device_;
  const MeasuredSet evaluated_;
  int64_t examples_ = 0, batch_size_ = 0, lanes_ = 1;
  Part whole_, rest_;
  std::vector<size_t> feed_bytes_, fetch_bytes_;    // of a batch, by feed and fetch; multiples of 256
  std::vector<size_t> feed_offset_, fetch_offset_;  // of batch 0
  size_t arena_bytes_ = 0, fetched_bytes_ = 0;
  std::vector<GpuMemory> base_;  // the base's variables
  GpuMemory params_, test_set_, arena_, fetches_;
  PinnedMemory host_fetches_;
  std::unique_ptr<GpuStream> stream_;
};

}  // namespace rivulet
