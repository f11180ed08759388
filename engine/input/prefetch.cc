// PrefetchDataset: a thread makes the next `buffer_size` elements while the caller uses earlier ones. The elements and
// their order are those of the input.
#include <deque>
#include <system_error>
#include <thread>

#include "engine/base/mutex.h"
#include "engine/input/pipeline_registry.h"

namespace rivulet {
namespace {

// More threads than cores give no speed, and an untrusted graph could request any number. Without a thread the order of
// elements is the same.
constexpr int64_t kAutotuned = 2;  // meaning of a buffer_size of -1 (AUTOTUNE)
constexpr int kMostThreads = 64;   // per process; further prefetches run without a thread
std::atomic<int> threads_running{0};

class PrefetchPipeline : public Pipeline {
 public:
  PrefetchPipeline(std::string where, std::vector<TensorSpec> specs, std::shared_ptr<const Pipeline> input,
                   int64_t buffer_size)
      : Pipeline(std::move(where), std::move(specs)), input_(std::move(input)), buffer_size_(buffer_size) {}

  StatusOr<std::unique_ptr<PipelineIterator>> MakeIterator(const IteratorContext& context) const override {
    RIVULET_ASSIGN_OR_RETURN(auto input, input_->MakeIterator(context));
    return std::make_unique<Iterator>(*this, context, std::move(input));
  }

 private:
  class Iterator : public IteratorOf<PrefetchPipeline> {
   public:
    Iterator(const PrefetchPipeline& pipeline, const IteratorContext& context, std::unique_ptr<PipelineIterator> input)
        : IteratorOf(pipeline, context), input_(std::move(input)), held_(context.budget) {}

    // The token wakes a thread that waits in the input, the flag one that waits for room.
    ~Iterator() override {
      if (!thread_.joinable()) return;
      stop_.Cancel();
      {
        MutexLock lock(shared_->mutex);
        shared_->stopped = true;
        shared_->changed.NotifyAll();
      }
      thread_.join();
      GiveThread();
    }

   private:
    // Separate from the iterator, because the callback of a cancelled call may run after the iterator's end.
    struct Shared {
      Mutex mutex;
      CondVar changed;
      std::deque<Element> ready GUARDED_BY(mutex);
      Status error GUARDED_BY(mutex);  // returned after the ready elements
      bool ended GUARDED_BY(mutex) = false;
      bool stopped GUARDED_BY(mutex) = false;
      bool cancelled GUARDED_BY(mutex) = false;  // the waiting call
    };

    // The thread starts at the first request: many iterators are never used.
    StatusOr<bool> DoNext(const CancellationToken& cancel, Element& element) override {
      if (!started_) Start();
      if (!thread_.joinable()) return input_->Next(cancel, element);
      {
        MutexLock lock(shared_->mutex);
        shared_->cancelled = false;
      }
      const uint64_t told = cancel.OnCancel([shared = shared_] {
        MutexLock lock(shared->mutex);
        shared->cancelled = true;
        shared->changed.NotifyAll();
      });
      const StatusOr<bool> more = Take(cancel, element);
      cancel.Forget(told);
      return more;
    }

    StatusOr<bool> Take(const CancellationToken& cancel, Element& element) {
      MutexLock lock(shared_->mutex);
      while (shared_->ready.empty() && !shared_->ended && !shared_->cancelled && !cancel.cancelled())
        shared_->changed.Wait(shared_->mutex);
      if (!shared_->ready.empty()) {
        element = std::move(shared_->ready.front());
        shared_->ready.pop_front();
        held_.Drop(element.bytes());
        shared_->changed.NotifyAll();
        return true;
      }
      if (!shared_->ended) return Cancelled("{}: the input was cancelled", where());
      if (!shared_->error.ok()) return shared_->error;
      return false;
    }

    void Start() {
      started_ = true;
      if (pipeline().buffer_size_ == 0) return;
      if (threads_running.fetch_add(1) >= kMostThreads) {
        threads_running.fetch_sub(1);
        return;
      }
      if (context().budget != nullptr && !context().budget->TakeThread()) {
        threads_running.fetch_sub(1);
        return;
      }
      try {
        thread_ = std::thread([this] { Produce(); });
      } catch (const std::system_error&) {
        GiveThread();  // no thread available: the caller's thread makes the elements
      }
    }

    void GiveThread() {
      threads_running.fetch_sub(1);
      if (context().budget != nullptr) context().budget->GiveThread();
    }

    void Produce() {
      EnterWorkerThread();
      for (;;) {
        {
          MutexLock lock(shared_->mutex);
          while (!shared_->stopped && static_cast<int64_t>(shared_->ready.size()) >= pipeline().buffer_size_)
            shared_->changed.Wait(shared_->mutex);
          if (shared_->stopped) return;
        }
        Element element;
        StatusOr<bool> more = input_->Next(stop_, element);
        Status status = more.status();
        // Reads a source's element here, in the thread; if it stayed deferred, the caller would wait for the disk
        // instead.
        if (status.ok() && *more) status = element.Components().status();  // read here, not by the caller
        MutexLock lock(shared_->mutex);
        if (status.ok() && *more) status = held_.Add(element.bytes(), where());
        // An error is returned after earlier elements, as without a thread.
        if (!status.ok() || !*more) {
          shared_->error = status;
          shared_->ended = true;
          shared_->changed.NotifyAll();
          return;
        }
        shared_->ready.push_back(std::move(element));
        shared_->changed.NotifyAll();
      }
    }

    const std::unique_ptr<PipelineIterator> input_;  // owned by the thread, once it runs
    const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
    const CancellationToken stop_ = CancellationToken::Create();
    HeldBytes held_;  // guarded by the mutex once the thread runs
    std::thread thread_;
    bool started_ = false;
  };

  const std::shared_ptr<const Pipeline> input_;
  const int64_t buffer_size_;
};

StatusOr<std::shared_ptr<Pipeline>> MakePrefetch(PipelineArguments& arguments) {
  RIVULET_ASSIGN_OR_RETURN(int64_t buffer_size, arguments.Integer(0, "buffer_size"));
  if (buffer_size < -1)
    return InvalidArgument("{}: buffer_size must be at least 0, or -1 (AUTOTUNE), not {}", arguments.where(),
                           buffer_size);
  if (buffer_size == -1) buffer_size = kAutotuned;
  RIVULET_ASSIGN_OR_RETURN(auto specs, arguments.Check(arguments.datasets[0]->specs()));
  return std::make_shared<PrefetchPipeline>(arguments.where(), std::move(specs), arguments.datasets[0], buffer_size);
}

RIVULET_DATASET_OP("PrefetchDataset", MakePrefetch);

}  // namespace
}  // namespace rivulet
