// An aggregator whose parent announces a plan, model or vector above the limits. It reports the task as failed, keeps
// nothing of it, and continues to serve.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "aggregator/aggregator.h"
#include "tests/coordinator/test_run.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kEndless = int64_t{1} << 62;

// Gives the client "a" one task after another, the next when the last one has failed, and sends what a test announces:
// of a blob that is announced as endless it never stops sending.
class FalseParent : public CoordinatorApi {
 public:
  StatusOr<PollReply> Poll(const PollRequest& request) override {
    MutexLock lock(mutex_);
    PollReply reply;
    for (const ServedName& name : request.serves.names) known_ |= name.name == "a";
    if (failed_.size() == tasks.size()) {
      reply.over = PollReply::Over{.sentence = "finished"};
    } else if (known_ && request.want > 0 && given_ == failed_.size()) {
      reply.tasks.push_back(tasks[given_++]);
    }
    reply.wait_ms = 1;
    return reply;
  }
  void AwaitWork(const Caller&, uint64_t, int64_t) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller&, const BlobId& blob, int64_t offset) override {
    class Reader : public ChunkReader {
     public:
      Reader(FalseParent& from, std::string bytes, int64_t total)
          : from_(from), bytes_(std::move(bytes)), total_(total) {}
      int64_t total_bytes() const override { return total_; }
      StatusOr<std::span<const std::byte>> Next() override {
        from_.sent += std::ssize(bytes_);
        const auto chunk = std::as_bytes(std::span(bytes_));
        if (total_ != kEndless && std::exchange(done_, true)) return std::span<const std::byte>();
        return chunk;
      }

     private:
      FalseParent& from_;
      const std::string bytes_;
      const int64_t total_;
      bool done_ = false;
    };
    EXPECT_EQ(offset, 0);
    if (blob.digest == Sha256Of(plan)) return std::make_unique<Reader>(*this, plan, std::ssize(plan));
    return std::make_unique<Reader>(*this, std::string(1 << 20, 'x'), kEndless);
  }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller&, const Submission&) override {
    return NotFound("no task");
  }
  Status Fail(const Caller&, const TaskFailure& failure) override {
    MutexLock lock(mutex_);
    failed_.push_back(SentenceOf(failure));
    return absl::OkStatus();
  }
  std::vector<std::string> failed() {
    MutexLock lock(mutex_);
    return failed_;
  }

  const std::string plan = "a plan";
  std::vector<Task> tasks;
  std::atomic<int64_t> sent = 0;

 private:
  Mutex mutex_;
  bool known_ GUARDED_BY(mutex_) = false;
  size_t given_ GUARDED_BY(mutex_) = 0;
  std::vector<std::string> failed_ GUARDED_BY(mutex_);
};

class BoundedDownloadsTest : public ::testing::Test {
 protected:
  Task TaskOf(const std::string& id, const Digest& plan, std::vector<NamedBlob> inputs) {
    Task task;
    task.id = id;
    task.run_id = "run";
    task.client_id = "a";
    task.plan = plan;
    task.inputs = std::move(inputs);
    return task;
  }
  // Until the parent says that the run is over.
  Status Serve(AggregatorPlan plan, CallOptions calls = {}) {
    Aggregator aggregator(parent_, {.name = "north",
                                    .version = "test",
                                    .folder = folder_.File(""),
                                    .state = folder_.File("state"),
                                    .calls = std::move(calls),
                                    .on_event =
                                        [this](const std::string&, const std::string& sentence) {
                                          MutexLock lock(mutex_);
                                          said_ += sentence + "\n";
                                        },
                                    .read_plan = [&](const std::string&) -> StatusOr<AggregatorPlan> { return plan; }});
    PollRequest request;
    request.caller = {.name = "a"};
    request.capabilities.datasets = {{"train", 5}};
    std::atomic<bool> over = false;
    std::thread client([&] {
      while (!over) {
        (void)aggregator.Poll(request);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
    const Status status = aggregator.Run();
    over = true;
    client.join();
    return status;
  }
  std::string said() {
    MutexLock lock(mutex_);
    return said_;
  }

  TestFolder folder_;
  FalseParent parent_;
  Mutex mutex_;
  std::string said_ GUARDED_BY(mutex_);
};

TEST_F(BoundedDownloadsTest, EachKindOfBlob_IsRefusedAtItsAnnouncementAndReported) {
  const Digest plan = Sha256Of(parent_.plan), endless = Sha256Of("endless");
  parent_.tasks = {TaskOf("t1", endless, {}), TaskOf("t2", plan, {{"model", {BlobId::Form::kModel, endless}}}),
                   TaskOf("t3", plan, {{"broadcast/c", {BlobId::Form::kBytes, Sha256Of("a vector")}}})};
  ASSERT_OK(Serve({.most_model_bytes = 1000, .most_broadcast_bytes = 500}));
  EXPECT_THAT(parent_.failed(), ElementsAre(HasSubstr("plan cannot be carried out"), HasSubstr("model to start from"),
                                            HasSubstr("model to start from")));
  EXPECT_THAT(said(), HasSubstr("at most 64000000 are taken"));
  EXPECT_THAT(said(), HasSubstr("at most 1000 are taken"));
  EXPECT_THAT(said(), HasSubstr("at most 500 are taken"));
  EXPECT_LT(parent_.sent, 1 << 20) << "nothing of an endless blob was read";
}

TEST_F(BoundedDownloadsTest, PlanThatDeclaresMoreThanThereIs_IsBoundedByTheAggregatorsMemory) {
  parent_.tasks = {TaskOf("t1", Sha256Of(parent_.plan), {{"model", {BlobId::Form::kModel, Sha256Of("endless")}}})};
  ASSERT_OK(Serve({.most_model_bytes = kEndless}, {.max_download_bytes = 1'000'000}));
  EXPECT_THAT(parent_.failed(), ElementsAre(HasSubstr("configuration forbids it: memory")));
  EXPECT_THAT(said(), HasSubstr("this aggregator's memory allows 1000000"));
}

}  // namespace
}  // namespace rivulet
