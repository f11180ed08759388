#include "setup/gpu_evaluator.h"

#include <algorithm>
#include <numeric>
#include <thread>
#include <utility>

#include "engine/compile/compile_gpu.h"
#include "engine/gpu/gpu_alignment.h"
#include "engine/tensor/spec_bytes.h"

namespace rivulet {
StatusOr<std::unique_ptr<GpuEvaluator>> GpuEvaluator::Create(std::shared_ptr<const Plan> plan,
                                                             std::shared_ptr<const Dataset> test, int64_t batch_size,
                                                             std::shared_ptr<GpuDevice> device,
                                                             const std::string& set) {
  RIVULET_ASSIGN_OR_RETURN(MeasuredSet evaluated, MeasuredSet::Of(*plan, test, set));
  std::unique_ptr<GpuEvaluator> evaluator(new GpuEvaluator(std::move(plan), std::move(device), std::move(evaluated)));
  // On a separate thread, because compiling needs EnterWorkerThread, which must not change the caller's thread.
  Status status;
  std::thread([&] {
    EnterWorkerThread();
    status = evaluator->Prepare(test, batch_size);
  }).join();
  RIVULET_RETURN_IF_ERROR(status);
  return evaluator;
}

StatusOr<GpuEvaluator::Part> GpuEvaluator::Compile(const ExampleDecoder& decoder, int64_t batch_size) {
  Part part;
  RIVULET_ASSIGN_OR_RETURN(part.program,
                           CompileForGpu(plan_->model().graph, evaluated_.SignatureFor(*plan_, decoder, batch_size),
                                         plan_->compile_options()));
  RIVULET_RETURN_IF_ERROR(evaluated_.Check(part.program->fetch_specs()));
  RIVULET_ASSIGN_OR_RETURN(part.instance, part.program->Instantiate(*device_));
  arena_bytes_ = std::max(arena_bytes_, part.program->arena_bytes());
  return part;
}

Status GpuEvaluator::Prepare(std::shared_ptr<const Dataset> test, int64_t batch_size) {
  examples_ = test->size();
  batch_size_ = std::clamp<int64_t>(batch_size, 1, examples_);
  RIVULET_ASSIGN_OR_RETURN(stream_, device_->NewStream());
  RIVULET_ASSIGN_OR_RETURN(const auto decoder, ExampleDecoder::Create(plan_->features()));
  RIVULET_ASSIGN_OR_RETURN(whole_, Compile(*decoder, batch_size_));
  if (const int64_t rest = examples_ % batch_size_; rest > 0) {
    RIVULET_ASSIGN_OR_RETURN(rest_, Compile(*decoder, rest));
  }
  RIVULET_ASSIGN_OR_RETURN(params_, device_->Allocate(plan_->layout()->arena_bytes(), "the evaluated model"));
  RIVULET_ASSIGN_OR_RETURN(const std::span<const Buffer> of_base, plan_->base_buffers());
  for (size_t i = 0; i < of_base.size(); ++i) {
    const size_t bytes = TensorBytes(plan_->layout()->base_variables()[i].spec);
    RIVULET_ASSIGN_OR_RETURN(GpuMemory memory, device_->Allocate(bytes, "the base of the evaluated model"));
    RIVULET_RETURN_IF_ERROR(stream_->ToDevice(memory.data(), of_base[i].data, bytes));
    base_.push_back(std::move(memory));
  }
  RIVULET_RETURN_IF_ERROR(BringExamples(test, decoder));
  // A batch's fetches are contiguous, so that all are copied back at once.
  for (const TensorSpec& spec : whole_.program->fetch_specs()) {
    fetch_offset_.push_back(fetched_bytes_);
    fetch_bytes_.push_back(GpuAligned(TensorBytes(spec)));
    fetched_bytes_ += fetch_bytes_.back();
  }
  const auto all = static_cast<size_t>(batches()) * fetched_bytes_;
  RIVULET_ASSIGN_OR_RETURN(fetches_, device_->Allocate(all, "what an evaluation fetches"));
  RIVULET_ASSIGN_OR_RETURN(host_fetches_, device_->AllocatePinned(all));
  // Clients are trained beside it, so it uses at most a quarter of the free memory.
  const size_t fit = device_->bytes_available() / 4 / std::max<size_t>(arena_bytes_, 1);
  lanes_ = std::clamp<int64_t>(static_cast<int64_t>(fit), 1, std::min(kMostLanes, batches()));
  RIVULET_ASSIGN_OR_RETURN(arena_,
                           device_->Allocate(static_cast<size_t>(lanes_) * arena_bytes_, "the arena of an evaluation"));
  return absl::OkStatus();
}

// Feed by feed, and batch by batch within a feed: batches begin at a lane's alignment.
Status GpuEvaluator::BringExamples(const std::shared_ptr<const Dataset>& test,
                                   const std::shared_ptr<const ExampleDecoder>& decoder) {
  size_t bytes = 0;
  for (const FeedSpec& feed : decoder->FeedSpecs(batch_size_)) {
    feed_offset_.push_back(bytes);
    feed_bytes_.push_back(GpuAligned(TensorBytes(feed.spec)));
    bytes += feed_bytes_.back() * static_cast<size_t>(batches());
  }
  RIVULET_ASSIGN_OR_RETURN(test_set_, device_->Allocate(bytes, "the test set"));
  size_t batch_bytes = 0;
  for (const size_t of_feed : feed_bytes_) batch_bytes += of_feed;
  RIVULET_ASSIGN_OR_RETURN(const PinnedMemory staged, device_->AllocatePinned(batch_bytes));
  const DatasetExamples examples(test, std::nullopt, decoder);
  for (int64_t batch = 0; batch < batches(); ++batch) {
    const int64_t begin = batch * batch_size_, count = std::min(batch_size_, examples_ - begin);
    std::vector<uint32_t> indices(static_cast<size_t>(count));
    std::iota(indices.begin(), indices.end(), static_cast<uint32_t>(begin));
    std::vector<TensorView> views;
    std::byte* at = staged.data();
    for (const FeedSpec& feed : decoder->FeedSpecs(count)) {
      views.push_back({at, feed.spec.dtype, feed.spec.shape});
      at += feed_bytes_[views.size() - 1];
    }
    RIVULET_RETURN_IF_ERROR(examples.Decode(indices, views));
    Status brought;
    for (size_t k = 0; k < views.size() && brought.ok(); ++k) {
      std::byte* const to = test_set_.data() + feed_offset_[k] + static_cast<size_t>(batch) * feed_bytes_[k];
      brought = stream_->ToDevice(to, views[k].data, views[k].bytes());
    }
    const Status waited = stream_->Wait();  // before the next batch is staged
    RIVULET_RETURN_IF_ERROR(brought);
    RIVULET_RETURN_IF_ERROR(waited);
  }
  return absl::OkStatus();
}

Status GpuEvaluator::Run(const Part& part, int64_t first, int64_t lanes) {
  const auto batch = static_cast<size_t>(first);
  std::vector<GpuOperand> buffers = {{params_.data(), 0}};
  for (const GpuMemory& memory : base_) buffers.push_back({memory.data(), 0});
  std::vector<GpuOperand> feeds, fetches;
  for (size_t k = 0; k < feed_bytes_.size(); ++k) {
    feeds.push_back({test_set_.data() + feed_offset_[k] + batch * feed_bytes_[k], feed_bytes_[k]});
  }
  for (size_t k = 0; k < fetch_bytes_.size(); ++k) {
    fetches.push_back({fetches_.data() + batch * fetched_bytes_ + fetch_offset_[k], fetched_bytes_});
  }
  GpuBindings bindings;
  bindings.arena = {arena_.data(), arena_bytes_};
  bindings.buffers = buffers;  // the graph only reads its variables
  bindings.feeds = feeds;
  bindings.fetches = fetches;
  bindings.lanes.count = static_cast<int32_t>(lanes);
  return part.instance->Enqueue(*stream_, bindings);
}

StatusOr<std::map<std::string, Measure>> GpuEvaluator::Evaluate(const Model& model) {
  const int64_t whole = examples_ / batch_size_;
  const auto work = [&]() -> Status {
    RIVULET_RETURN_IF_ERROR(stream_->ToDevice(params_.data(), model.arena().data(), model.arena().size()));
    for (int64_t first = 0; first < whole; first += lanes_) {
      RIVULET_RETURN_IF_ERROR(Run(whole_, first, std::min(lanes_, whole - first)));
    }
    if (rest_.program != nullptr) RIVULET_RETURN_IF_ERROR(Run(rest_, whole, 1));
    return stream_->ToHost(host_fetches_.data(), fetches_.data(), static_cast<size_t>(batches()) * fetched_bytes_);
  };
  Status status = work();
  if (Status ran = stream_->Wait(); status.ok()) status = std::move(ran);
  if (!status.ok()) return Annotate(status, "evaluation");
  const size_t width = evaluated_.width();
  std::vector<double> values(static_cast<size_t>(batches()) * width);
  for (int64_t batch = 0; batch < batches(); ++batch) {
    const Part& part = batch < whole ? whole_ : rest_;
    for (size_t k = 0; k < evaluated_.size(); ++k) {
      const TensorSpec& spec = part.program->fetch_specs()[k];
      std::byte* const at = host_fetches_.data() + static_cast<size_t>(batch) * fetched_bytes_ + fetch_offset_[k];
      evaluated_.Read(k, {at, spec.dtype, spec.shape},
                      std::span(values).subspan(static_cast<size_t>(batch) * width, width));
    }
  }
  return evaluated_.MeasuresOf(values, examples_, batch_size_, whole_.program->fetch_specs(),
                               rest_.program == nullptr ? std::span<const TensorSpec>() : rest_.program->fetch_specs());
}

}  // namespace rivulet
