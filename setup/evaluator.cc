#include "setup/evaluator.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>
#include <utility>

#include "engine/compile/compile.h"
#include "engine/profile/step_monitor.h"

namespace rivulet {
namespace {

StatusOr<std::shared_ptr<const Program>> CompileEvaluation(const Plan& plan, const ExampleDecoder& decoder,
                                                           int64_t batch_size) {
  const ModelDef& model = plan.model();
  Signature signature;
  signature.feeds = decoder.FeedSpecs(batch_size);
  signature.fetches = {model.eval_loss};
  for (const auto& [name, tensor] : model.metrics) signature.fetches.push_back(tensor);
  for (const Slice& slice : plan.layout()->slices()) {
    signature.variables.push_back({slice.name, 0, slice.offset, slice.spec});
  }
  RIVULET_ASSIGN_OR_RETURN(auto program, CompileProgram(model.graph, signature, plan.compile_options()));
  for (size_t i = 0; i < signature.fetches.size(); ++i) {
    const TensorSpec& spec = program->fetch_specs()[i];
    if (spec.shape != Shape{} || (spec.dtype != DType::kFloat32 && spec.dtype != DType::kFloat64)) {
      return InvalidArgument("'{}' is {}{}; what is evaluated must be a float32 or float64 scalar",
                             signature.fetches[i], Name(spec.dtype), spec.shape.ToString());
    }
  }
  return program;
}

// One program's memory in one thread.
struct BoundProgram {
  std::unique_ptr<Instance> instance;
  std::vector<TensorView> feeds, fetches;
};

}  // namespace

struct CentralEvaluator::Worker {
  BoundProgram whole, rest;
  AlignedBuffer arena;
  std::vector<AlignedBuffer> feed_memory;
  std::vector<double> values;  // 8 bytes for each fetch, whatever its type
  std::vector<uint32_t> indices;
};

CentralEvaluator::~CentralEvaluator() = default;

StatusOr<std::unique_ptr<CentralEvaluator>> CentralEvaluator::Create(std::shared_ptr<const Plan> plan,
                                                                     std::shared_ptr<const Dataset> test,
                                                                     int64_t batch_size, int threads,
                                                                     StepMonitor* monitor) {
  std::unique_ptr<CentralEvaluator> evaluator(new CentralEvaluator);
  evaluator->monitor_ = monitor;
  if (test->size() == 0) return InvalidArgument("data.test has no examples");
  RIVULET_ASSIGN_OR_RETURN(const auto decoder, ExampleDecoder::Create(plan->features()));
  evaluator->examples_ = std::make_unique<DatasetExamples>(test, std::nullopt, decoder);
  evaluator->batch_size_ = std::clamp<int64_t>(batch_size, 1, test->size());
  evaluator->names_ = {"test/loss"};
  for (const auto& [name, tensor] : plan->model().metrics) evaluator->names_.push_back("test/" + name);
  evaluator->plan_ = std::move(plan);
  const int64_t rest = test->size() % evaluator->batch_size_;

  // On a thread of its own, because compiling wants EnterWorkerThread and the caller's thread is not ours to change.
  Status status;
  std::thread([&] {
    EnterWorkerThread();
    status = [&]() -> Status {
      RIVULET_ASSIGN_OR_RETURN(evaluator->whole_,
                               CompileEvaluation(*evaluator->plan_, *decoder, evaluator->batch_size_));
      if (rest > 0) {
        RIVULET_ASSIGN_OR_RETURN(evaluator->rest_, CompileEvaluation(*evaluator->plan_, *decoder, rest));
      }
      const int64_t batches = (test->size() + evaluator->batch_size_ - 1) / evaluator->batch_size_;
      for (int64_t i = 0; i < std::clamp<int64_t>(threads, 1, batches); ++i) {
        auto worker = std::make_unique<Worker>();
        worker->values.resize(evaluator->names_.size());
        worker->indices.resize(static_cast<size_t>(evaluator->batch_size_));
        for (const FeedSpec& feed : decoder->FeedSpecs(evaluator->batch_size_)) {
          worker->feed_memory.emplace_back(static_cast<size_t>(feed.spec.shape.elements()) * SizeOf(feed.spec.dtype));
        }
        size_t arena_bytes = 0;
        for (const auto& [program, bound] :
             {std::pair(evaluator->whole_, &worker->whole), std::pair(evaluator->rest_, &worker->rest)}) {
          if (program == nullptr) continue;
          RIVULET_ASSIGN_OR_RETURN(bound->instance, program->Instantiate());
          const std::vector<FeedSpec>& feeds = program->signature().feeds;
          for (size_t k = 0; k < feeds.size(); ++k) {
            bound->feeds.push_back({worker->feed_memory[k].data(), feeds[k].spec.dtype, feeds[k].spec.shape});
          }
          for (size_t k = 0; k < worker->values.size(); ++k) {
            bound->fetches.push_back(
                {reinterpret_cast<std::byte*>(&worker->values[k]), program->fetch_specs()[k].dtype, Shape{}});
          }
          arena_bytes = std::max(arena_bytes, program->memory().arena_bytes);
        }
        RIVULET_ASSIGN_OR_RETURN(worker->arena, AlignedBuffer::Create(arena_bytes));
        evaluator->workers_.push_back(std::move(worker));
      }
      // A test set of the wrong shape is told now, not after the first round.
      const uint32_t first = 0;
      return evaluator->examples_->Decode({&first, 1}, evaluator->workers_[0]->whole.feeds);
    }();
  }).join();
  RIVULET_RETURN_IF_ERROR(status);
  return evaluator;
}

StatusOr<std::map<std::string, double>> CentralEvaluator::Evaluate(const Model& model) {
  const int64_t examples = examples_->size();
  const int64_t batches = (examples + batch_size_ - 1) / batch_size_;
  const size_t fetches = names_.size();
  std::vector<double> means(static_cast<size_t>(batches) * fetches);
  std::vector<Status> errors(static_cast<size_t>(batches));
  std::atomic<int64_t> next = 0;
  std::atomic<bool> failed = false;
  // The graph only reads its variables, so the committed model's own memory serves.
  const Buffer params{const_cast<std::byte*>(model.arena().data()), DType::kFloat32, 0};

  const auto evaluate_batch = [&](Worker& worker, int64_t batch) -> Status {
    const int64_t begin = batch * batch_size_, size = std::min(batch_size_, examples - begin);
    BoundProgram& bound = size == batch_size_ ? worker.whole : worker.rest;
    std::iota(worker.indices.begin(), worker.indices.begin() + size, static_cast<uint32_t>(begin));
    RIVULET_RETURN_IF_ERROR(examples_->Decode({worker.indices.data(), static_cast<size_t>(size)}, bound.feeds));
    Bindings bindings;
    bindings.arena = worker.arena.data();
    bindings.buffers = {&params, 1};
    bindings.feeds = bound.feeds;
    bindings.fetches = bound.fetches;
    MonitoredRun watched(monitor_, bindings);
    RIVULET_RETURN_IF_ERROR(bound.instance->Run(bindings));
    watched.Done();
    for (size_t k = 0; k < fetches; ++k) {
      const TensorView& fetch = bound.fetches[k];
      means[static_cast<size_t>(batch) * fetches + k] =
          fetch.dtype == DType::kFloat64 ? fetch.flat<double>()[0] : fetch.flat<float>()[0];
    }
    return absl::OkStatus();
  };
  std::vector<std::thread> threads;
  for (const auto& worker : workers_) {
    threads.emplace_back([&, worker = worker.get()] {
      EnterWorkerThread();
      for (int64_t batch; !failed.load() && (batch = next.fetch_add(1)) < batches;) {
        Status& status = errors[static_cast<size_t>(batch)];
        status = evaluate_batch(*worker, batch);
        if (!status.ok()) failed = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : errors) {
    if (!status.ok()) return Annotate(status, "evaluation");
  }
  std::map<std::string, double> result;
  for (size_t k = 0; k < fetches; ++k) {
    double sum = 0;
    for (int64_t batch = 0; batch < batches; ++batch) {
      const int64_t size = std::min(batch_size_, examples - batch * batch_size_);
      sum += means[static_cast<size_t>(batch) * fetches + k] * static_cast<double>(size);
    }
    result[names_[k]] = sum / static_cast<double>(examples);
  }
  return result;
}

}  // namespace rivulet
