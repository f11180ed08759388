#include "setup/evaluator.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "engine/compile/compile.h"
#include "engine/profile/step_monitor.h"
#include "engine/tensor/spec_bytes.h"
#include "federated/plan/example_source.h"

namespace rivulet {
namespace {

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
  std::vector<AlignedBuffer> fetch_memory;
};

// Shared by its threads: each takes the next batch until none is left.
struct CentralEvaluator::Evaluation {
  Evaluation(std::vector<Buffer> variables, int64_t batches, size_t fetches)
      : buffers(std::move(variables)),
        batches(batches),
        values(static_cast<size_t>(batches) * fetches),
        errors(static_cast<size_t>(batches)) {}
  const std::vector<Buffer> buffers;  // the graph only reads its variables, so the committed model's own memory is used
  const int64_t batches;
  std::vector<double> values;  // batch by batch, as written by MeasuredSet::Read
  std::vector<Status> errors;  // of each batch
  std::atomic<int64_t> next = 0;
  std::atomic<bool> failed = false;
};

StatusOr<std::shared_ptr<const Program>> CentralEvaluator::Compile(const ExampleDecoder& decoder,
                                                                   int64_t batch_size) const {
  RIVULET_ASSIGN_OR_RETURN(auto program,
                           CompileProgram(plan_->model().graph, evaluated_.SignatureFor(*plan_, decoder, batch_size),
                                          plan_->compile_options()));
  RIVULET_RETURN_IF_ERROR(evaluated_.Check(program->fetch_specs()));
  return program;
}

CentralEvaluator::CentralEvaluator(MeasuredSet evaluated) : evaluated_(std::move(evaluated)) {}

CentralEvaluator::~CentralEvaluator() {
  {
    MutexLock lock(mutex_);
    closing_ = true;
    begun_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

StatusOr<std::unique_ptr<CentralEvaluator>> CentralEvaluator::Create(std::shared_ptr<const Plan> plan,
                                                                     std::shared_ptr<const Dataset> test,
                                                                     CentralEvaluatorOptions options) {
  RIVULET_ASSIGN_OR_RETURN(MeasuredSet evaluated, MeasuredSet::Of(*plan, test, options.set));
  std::unique_ptr<CentralEvaluator> evaluator(new CentralEvaluator(std::move(evaluated)));
  RIVULET_ASSIGN_OR_RETURN(const auto decoder, ExampleDecoder::Create(plan->features()));
  evaluator->examples_ = std::make_unique<DecodedExamples>(test, decoder, options.rows);
  evaluator->plan_ = std::move(plan);

  // On a separate thread, because compiling needs EnterWorkerThread, which must not change the caller's thread.
  Status status;
  std::thread([&] {
    EnterWorkerThread();
    status = evaluator->Prepare(std::move(options));
    if (!status.ok()) return;
    // A test set of the wrong shape is reported now, not after the first round. The example is not cached: in a
    // separate allocation, it would keep its batch from being contiguous.
    const uint32_t first = 0;
    status = DecodedExamples(test, decoder).Decode({&first, 1}, evaluator->workers_[0]->whole.feeds);
  }).join();
  RIVULET_RETURN_IF_ERROR(status);
  for (const auto& worker : evaluator->workers_)
    evaluator->threads_.emplace_back(
        [evaluator = evaluator.get(), worker = worker.get()] { evaluator->Work(*worker); });
  return evaluator;
}

Status CentralEvaluator::Prepare(CentralEvaluatorOptions options) {
  const int64_t examples = examples_->size();
  monitor_ = options.monitor;
  batch_size_ = std::clamp<int64_t>(options.batch_size, 1, examples);
  RIVULET_ASSIGN_OR_RETURN(const auto decoder, ExampleDecoder::Create(plan_->features()));
  RIVULET_ASSIGN_OR_RETURN(whole_, Compile(*decoder, batch_size_));
  if (const int64_t rest = examples % batch_size_; rest > 0) {
    RIVULET_ASSIGN_OR_RETURN(rest_, Compile(*decoder, rest));
  }
  const int64_t batches = (examples + batch_size_ - 1) / batch_size_;
  for (int64_t i = 0; i < std::clamp<int64_t>(options.threads, 1, batches); ++i) {
    auto worker = std::make_unique<Worker>();
    for (const TensorSpec& spec : whole_->fetch_specs()) {  // the smaller batch needs no more
      worker->fetch_memory.emplace_back(TensorBytes(spec));
    }
    for (const FeedSpec& feed : decoder->FeedSpecs(batch_size_)) {
      worker->feed_memory.emplace_back(TensorBytes(feed.spec));
    }
    size_t arena_bytes = 0;
    for (const auto& [program, bound] : {std::pair(whole_, &worker->whole), std::pair(rest_, &worker->rest)}) {
      if (program == nullptr) continue;
      RIVULET_ASSIGN_OR_RETURN(bound->instance, program->Instantiate());
      const std::vector<FeedSpec>& feeds = program->signature().feeds;
      for (size_t k = 0; k < feeds.size(); ++k) {
        bound->feeds.push_back({worker->feed_memory[k].data(), feeds[k].spec.dtype, feeds[k].spec.shape});
      }
      for (size_t k = 0; k < evaluated_.size(); ++k) {
        const TensorSpec& spec = program->fetch_specs()[k];
        bound->fetches.push_back({worker->fetch_memory[k].data(), spec.dtype, spec.shape});
      }
      arena_bytes = std::max(arena_bytes, program->memory().arena_bytes);
    }
    RIVULET_ASSIGN_OR_RETURN(worker->arena, AlignedBuffer::Create(arena_bytes));
    workers_.push_back(std::move(worker));
  }
  return absl::OkStatus();
}

Status CentralEvaluator::EvaluateBatch(Worker& worker, int64_t batch, Evaluation& evaluation) const {
  const int64_t begin = batch * batch_size_, size = std::min(batch_size_, examples_->size() - begin);
  BoundProgram& bound = size == batch_size_ ? worker.whole : worker.rest;
  for (size_t k = 0; k < bound.feeds.size(); ++k) bound.feeds[k].data = worker.feed_memory[k].data();
  RIVULET_RETURN_IF_ERROR(examples_->Feed(static_cast<uint32_t>(begin), size, bound.feeds));
  Bindings bindings;
  bindings.arena = worker.arena.data();
  bindings.buffers = evaluation.buffers;
  bindings.feeds = bound.feeds;
  bindings.fetches = bound.fetches;
  MonitoredRun watched(monitor_, bindings);
  RIVULET_RETURN_IF_ERROR(bound.instance->Run(bindings));
  watched.Done();
  const size_t width = evaluated_.width();
  const std::span<double> values = std::span(evaluation.values).subspan(static_cast<size_t>(batch) * width, width);
  for (size_t k = 0; k < evaluated_.size(); ++k) evaluated_.Read(k, bound.fetches[k], values);
  return absl::OkStatus();
}

void CentralEvaluator::Work(Worker& worker) {
  EnterWorkerThread();
  for (int64_t seen = 0;;) {
    Evaluation* evaluation = nullptr;
    {
      MutexLock lock(mutex_);
      while (evaluations_ == seen && !closing_) begun_.Wait(mutex_);
      if (closing_) return;
      seen = evaluations_;
      evaluation = evaluation_;
    }
    for (int64_t batch; !evaluation->failed.load() && (batch = evaluation->next.fetch_add(1)) < evaluation->batches;) {
      Status& status = evaluation->errors[static_cast<size_t>(batch)];
      status = EvaluateBatch(worker, batch, *evaluation);
      if (!status.ok()) evaluation->failed = true;
    }
    MutexLock lock(mutex_);
    if (--working_ == 0) done_.NotifyOne();
  }
}

StatusOr<std::map<std::string, Measure>> CentralEvaluator::Evaluate(const Model& model) {
  const int64_t examples = examples_->size();
  const int64_t batches = (examples + batch_size_ - 1) / batch_size_;
  RIVULET_ASSIGN_OR_RETURN(std::vector<Buffer> buffers, BuffersOver(*plan_, model));
  Evaluation evaluation(std::move(buffers), batches, evaluated_.width());
  {
    MutexLock lock(mutex_);
    evaluation_ = &evaluation;
    working_ = workers_.size();
    ++evaluations_;
    begun_.NotifyAll();
    while (working_ > 0) done_.Wait(mutex_);
    evaluation_ = nullptr;
  }
  for (const Status& status : evaluation.errors) {
    if (!status.ok()) return Annotate(status, "evaluation");
  }
  return evaluated_.MeasuresOf(evaluation.values, examples, batch_size_, whole_->fetch_specs(),
                               rest_ == nullptr ? std::span<const TensorSpec>() : rest_->fetch_specs());
}

}  // namespace rivulet
