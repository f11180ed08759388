#include "client/site/site.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>

#include "client/training/pass_programs.h"
#include "federated/random/streams.h"
#include "federated/updates/block_crcs.h"
#include "federated/updates/task_records.h"
#include "tests/client/training/local_plan.h"
#include "tests/testing/memory_dataset.h"
#include "tests/testing/partial_bytes.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using testing::DigitExample;
using testing::DigitRecords;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::LocalScenario;
using testing::MemoryDataset;
using testing::PatternModel;
using testing::PlanBytes;
using ::testing::SizeIs;
using testing::TrainOne;
using ::testing::UnorderedElementsAre;

constexpr uint64_t kGather = 7;

// A coordinator in this process that answers polls by a script, then says that the run is over.
class ScriptedCoordinator : public CoordinatorApi {
 public:
  explicit ScriptedCoordinator(const Scenario& scenario)
      : bytes_(PlanBytes(scenario)), plan_(*Plan::Open(bytes_)), base_(PatternModel(*plan_)) {}

  Task TaskOf(const std::string& client_id, uint64_t gather = kGather) const {
    Task task;
    task.id = "task of " + client_id;
    task.client_id = client_id;
    task.stream_key = ClientKey(42, client_id);
    task.plan = plan_->digest();
    task.inputs = {{"model", {BlobId::Form::kModel, base_->ComputeDigest()}}};
    task.gather = gather;
    return task;
  }

  StatusOr<PollReply> Poll(const PollRequest& request) override {
    EXPECT_EQ(request.serves.kind, Serves::Kind::kAny);
    if (request.want == 0) return PollReply{};  // a slow machine's site, or a heartbeat, only tells that it is alive
    requests_.push_back(request);
    PollReply reply;
    if (script_.empty()) {
      reply.over = PollReply::Over{.sentence = "finished"};
    } else {
      reply = script_.front();
      script_.pop_front();
    }
    reply.epoch = requests_.size();
    return reply;
  }
  void AwaitWork(const Caller&, uint64_t epoch, int64_t timeout_ms) override {
    EXPECT_EQ(epoch, requests_.size());
    waits_.push_back(timeout_ms);
  }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller&, const BlobId& blob, int64_t offset) override {
    EXPECT_EQ(offset, 0);
    if (elsewhere_ && blob.form == BlobId::Form::kModel) {
      ++model_fetches_;
      return std::make_unique<Reader>(model_bytes_);
    }
    EXPECT_EQ(blob, (BlobId{BlobId::Form::kBytes, plan_->digest()}));
    ++plan_fetches_;
    return std::make_unique<Reader>(bytes_);
  }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override {
    EXPECT_TRUE(elsewhere_) << "nothing is sent in place";
    EXPECT_EQ(caller.name, "worker 0");
    if (refuses_sites_) return PermissionDenied("no such site");
    submissions_.push_back(submission);
    class Writer : public ChunkWriter {
     public:
      explicit Writer(ScriptedCoordinator& coordinator) : coordinator_(coordinator) { coordinator_.sent_.clear(); }
      std::span<const uint32_t> staged_crcs() const override { return {}; }
      Status Resume(int64_t) override { return absl::OkStatus(); }
      Status Write(std::span<const std::byte> chunk) override {
        coordinator_.sent_.append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
        return absl::OkStatus();
      }
      StatusOr<SubmitResult> Finish(const Digest& identity) override {
        BlockCrcs crcs;
        crcs.Append(std::as_bytes(std::span(coordinator_.sent_)));
        EXPECT_EQ(identity, crcs.Identity(0));
        if (std::exchange(coordinator_.lose_next_, false)) return Unavailable("the connection was lost");
        return coordinator_.submitted_;
      }

     private:
      ScriptedCoordinator& coordinator_;
    };
    return std::make_unique<Writer>(*this);
  }
  StatusOr<SubmitResult> SubmitInPlace(const Caller& caller, Partial&& partial,
                                       std::span<const TaskRecord> records) override {
    EXPECT_FALSE(elsewhere_);
    EXPECT_EQ(caller.name, "worker 0");
    partials_.push_back(std::move(partial));
    records_.emplace_back(records.begin(), records.end());
    return submitted_;
  }
  StatusOr<std::shared_ptr<const Model>> FetchInPlace(const Caller&, const BlobId& blob) override {
    EXPECT_EQ(blob, (BlobId{BlobId::Form::kModel, base_->ComputeDigest()}));
    if (elsewhere_) return Unimplemented("a model is shared in one process only");
    ++model_fetches_;
    return base_;
  }
  Status Fail(const Caller&, const TaskFailure& failure) override {
    failures_.push_back(fmt::format("{}{}: {}", failure.task,
                                    failure.code == TaskFailure::Code::kBadUpdate ? " refused" : " failed",
                                    failure.sentence));
    return failed_;
  }

  const std::string bytes_;
  const std::shared_ptr<const Plan> plan_;
  const std::shared_ptr<const Model> base_;
  std::deque<PollReply> script_;
  std::vector<PollRequest> requests_;
  std::vector<int64_t> waits_;
  int plan_fetches_ = 0, model_fetches_ = 0;
  bool elsewhere_ = false;  // in another process
  const std::string model_bytes_ = ModelToSafetensors(*base_, {});
  std::vector<Submission> submissions_;
  std::string sent_;  // by the last of them
  bool lose_next_ = false, refuses_sites_ = false;
  std::vector<Partial> partials_;
  std::vector<std::vector<TaskRecord>> records_;
  std::vector<std::string> failures_;
  StatusOr<SubmitResult> submitted_ = SubmitResult{};
  Status failed_;

 private:
  class Reader : public ChunkReader {
   public:
    explicit Reader(const std::string& bytes) : rest_(std::as_bytes(std::span(bytes))) {}
    int64_t total_bytes() const override { return static_cast<int64_t>(rest_.size()); }
    StatusOr<std::span<const std::byte>> Next() override {
      const auto chunk = rest_.first(std::min<size_t>(rest_.size(), 1000));
      rest_ = rest_.subspan(chunk.size());
      return chunk;
    }

   private:
    std::span<const std::byte> rest_;
  };
};

class SiteTest : public ::testing::Test, public ClientData {
 protected:
  SiteTest() : coordinator_(WithMaxWeight20()) {
    data_["a"] = DigitRecords(12, 1);
    data_["b"] = DigitRecords(15, 2);
    data_["heavy"] = DigitRecords(21, 3);
    data_["bad"] = {DigitExample(std::string(784, 'x'), 42)};
  }
  static Scenario WithMaxWeight20() {
    Scenario scenario = LocalScenario();
    scenario.server.clients_per_round = 4;
    scenario.server.max_weight = 20;
    return scenario;
  }

  StatusOr<BoundData> Of(std::string_view client_id) const override {
    const auto found = data_.find(std::string(client_id));
    if (found == data_.end()) return NotFound("no data of '{}'", client_id);
    return BoundData{.dataset = std::make_shared<MemoryDataset>(found->second), .indices = {}};
  }

  PollReply Tasks(const std::vector<std::string>& clients, uint64_t gather = kGather) {
    PollReply reply;
    for (const std::string& client_id : clients) reply.tasks.push_back(coordinator_.TaskOf(client_id, gather));
    return reply;
  }
  PollReply HandOverOf(const std::vector<std::string>& clients, uint64_t gather = kGather) {
    PollReply reply;
    reply.hand_over.push_back({gather, {}});
    for (const std::string& client_id : clients) reply.hand_over[0].tasks.push_back("task of " + client_id);
    return reply;
  }

  Status Run(bool holds = true) {
    SiteOptions options;
    options.name = "worker 0";
    options.holds = holds;
    options.calls.backoff.initial_ms = 1;
    return Site(coordinator_, *this, artifacts_, stop_, std::move(options)).Run();
  }

  // What the updates of these clients come to when each is trained and folded on its own.
  std::string Reference(const std::vector<std::string>& clients) {
    auto aggregation = *Aggregation::Create(coordinator_.plan_->aggregation());
    auto decoder = *ExampleDecoder::Create(coordinator_.plan_->features());
    for (const std::string& client_id : clients) {
      auto trainer = *Trainer::Create(std::make_shared<PassPrograms>(coordinator_.plan_));
      const Task task = coordinator_.TaskOf(client_id);
      const DatasetExamples examples(std::make_shared<MemoryDataset>(data_[client_id]), std::nullopt, decoder);
      const auto trained = TrainOne(*trainer, task, client_id, *coordinator_.base_, examples);
      EXPECT_OK(trained);
      const PartView part{.name = "delta", .data = std::as_bytes(std::span(trained->delta))};
      EXPECT_OK(aggregation->Take({task.id, task.base_version, {&part, 1}, trained->declared},
                                  {.parts = {*trained->examples}}));
    }
    return testing::BytesOf(aggregation->spec(), aggregation->Save().at(0));
  }

  std::string Handed(size_t partial) const {
    return testing::BytesOf(coordinator_.plan_->aggregation(), coordinator_.partials_.at(partial));
  }

  ScriptedCoordinator coordinator_;
  std::map<std::string, std::vector<std::string>> data_;
  ArtifactCache artifacts_;
  StopSignal stop_;
};

TEST_F(SiteTest, Tasks_AreFoldedIntoOnePartialThatIsHandedOverWhenAskedFor) {
  coordinator_.script_ = {Tasks({"a", "b"}), HandOverOf({"a", "b"})};
  ASSERT_OK(Run());
  ASSERT_THAT(coordinator_.partials_, SizeIs(1));
  EXPECT_EQ(Handed(0), Reference({"b", "a"}));
  ASSERT_THAT(coordinator_.records_[0], SizeIs(2));
  const TaskRecord& record = coordinator_.records_[0][1];
  EXPECT_EQ(record.task, "task of b");
  EXPECT_EQ(record.examples, 15);
  EXPECT_EQ(record.steps, 4);
  EXPECT_GT(record.declared.at("train_loss"), 0);
  EXPECT_GT(record.update_norm, 0);
  EXPECT_THAT(coordinator_.failures_, IsEmpty());
  EXPECT_EQ(coordinator_.plan_fetches_, 1);
  EXPECT_EQ(coordinator_.model_fetches_, 1);
  // What is held is said when it is, and one of it afterwards.
  ASSERT_THAT(coordinator_.requests_, SizeIs(3));
  EXPECT_THAT(coordinator_.requests_[0].working_on, IsEmpty());
  EXPECT_THAT(coordinator_.requests_[1].working_on,
              ElementsAre(::testing::FieldsAre("task of a", true, 0), ::testing::FieldsAre("task of b", true, 0)));
  EXPECT_THAT(coordinator_.requests_[2].working_on, IsEmpty());
}

TEST_F(SiteTest, UpdateThatIsRefused_LeavesNoTraceInThePartial) {
  coordinator_.script_ = {Tasks({"a", "heavy", "b"}), HandOverOf({"a", "b"})};
  ASSERT_OK(Run());
  ASSERT_THAT(coordinator_.partials_, SizeIs(1));
  EXPECT_EQ(Handed(0), Reference({"a", "b"}));
  EXPECT_THAT(coordinator_.failures_,
              ElementsAre("task of heavy refused: the update of task 'task of heavy' weighs 21, more than "
                          "server.max_weight = 20; raise server.max_weight"));
}

TEST_F(SiteTest, TaskThatCannotBeDone_FailsAndTheOthersGoOn) {
  coordinator_.script_ = {Tasks({"bad", "absent", "a"}), HandOverOf({"a"})};
  ASSERT_OK(Run());
  ASSERT_THAT(coordinator_.partials_, SizeIs(1));
  EXPECT_EQ(Handed(0), Reference({"a"}));
  EXPECT_THAT(coordinator_.failures_,
              ElementsAre(::testing::AllOf(HasSubstr("task of bad failed: memory.tfrecord: record 0 at byte 0"),
                                           HasSubstr("'label' is 42")),
                          "task of absent failed: no data of 'absent'"));
}

TEST_F(SiteTest, AttemptThatWasGivenUp_ItsPartialGoes) {
  PollReply cancelled = Tasks({"b"}, kGather + 1);
  cancelled.cancelled = {"task of a"};
  coordinator_.script_ = {Tasks({"a"}), cancelled, HandOverOf({"b"}, kGather + 1)};
  ASSERT_OK(Run());
  ASSERT_THAT(coordinator_.partials_, SizeIs(1));
  EXPECT_EQ(Handed(0), Reference({"b"}));
  EXPECT_THAT(coordinator_.failures_, IsEmpty());
}

TEST_F(SiteTest, OneOfManyIsCancelled_TheOthersInItsPartialAreGivenUp) {
  PollReply cancelled;
  cancelled.cancelled = {"task of a"};
  coordinator_.script_ = {Tasks({"a", "b"}), cancelled};
  coordinator_.failed_ = NotFound("gone");  // which is no error: it has ended
  ASSERT_OK(Run());
  EXPECT_THAT(coordinator_.partials_, IsEmpty());
  EXPECT_THAT(coordinator_.failures_,
              ElementsAre("task of b failed: its update was gathered with one that was cancelled"));
}

// A coordinator that was started again draws the same tasks; what it gives must not be given up in the same breath.
TEST_F(SiteTest, OneOfManyIsCancelledAndAnotherGivenAnew_ThatIsDoneAgain) {
  PollReply again = Tasks({"b"});
  again.cancelled = {"task of a"};
  coordinator_.script_ = {Tasks({"a", "b"}), again, HandOverOf({"b"})};
  ASSERT_OK(Run());
  EXPECT_THAT(coordinator_.failures_, IsEmpty());
  ASSERT_THAT(coordinator_.partials_, SizeIs(1));
  EXPECT_EQ(Handed(0), Reference({"b"}));
}

TEST_F(SiteTest, PartialOfTwoAttempts_AreTwo) {
  coordinator_.script_ = {Tasks({"a"}), Tasks({"b"}, kGather + 1), HandOverOf({"b"}, kGather + 1), HandOverOf({"a"})};
  ASSERT_OK(Run());
  ASSERT_THAT(coordinator_.partials_, SizeIs(2));
  EXPECT_THAT(coordinator_.partials_[0].tasks, ElementsAre("task of b"));
  EXPECT_THAT(coordinator_.partials_[1].tasks, ElementsAre("task of a"));
}

TEST_F(SiteTest, AskedForWhatItDoesNotHold_GivesItUp) {
  coordinator_.script_ = {HandOverOf({"a", "b"})};
  ASSERT_OK(Run());
  EXPECT_THAT(coordinator_.partials_, IsEmpty());
  EXPECT_THAT(coordinator_.failures_, UnorderedElementsAre("task of a failed: its site has lost its update",
                                                           "task of b failed: its site has lost its update"));
}

TEST_F(SiteTest, PartialThatIsNotTaken_ItsTasksAreGivenUp) {
  coordinator_.script_ = {Tasks({"a"}), HandOverOf({"a"})};
  coordinator_.submitted_ = NotFound("site 'worker 0' has no task 'task of a'");
  ASSERT_OK(Run());
  EXPECT_THAT(coordinator_.failures_, ElementsAre("task of a failed: site 'worker 0' has no task 'task of a'"));
}

TEST_F(SiteTest, SiteThatHoldsNothing_HandsEachUpdateOver) {
  coordinator_.script_ = {Tasks({"a", "b"})};
  ASSERT_OK(Run(false));
  ASSERT_THAT(coordinator_.partials_, SizeIs(2));
  EXPECT_EQ(Handed(1), Reference({"b"}));
  EXPECT_THAT(coordinator_.requests_[1].working_on, IsEmpty());
}

TEST_F(SiteTest, CoordinatorElsewhere_IsSentRecordsAndPartial) {
  coordinator_.elsewhere_ = true;
  coordinator_.lose_next_ = true;  // which is sent again
  coordinator_.script_ = {Tasks({"a", "b"}), HandOverOf({"a", "b"}), PollReply{}};
  ASSERT_OK(Run());
  ASSERT_THAT(coordinator_.submissions_, SizeIs(2));
  const Submission& submission = coordinator_.submissions_[1];
  EXPECT_EQ(submission.kind, Submission::Kind::kPartial);
  EXPECT_EQ(submission.gather, kGather);
  EXPECT_EQ(submission.task, "");
  EXPECT_EQ(submission.bytes, std::ssize(coordinator_.sent_));
  const auto read = ReadTaskRecords(std::as_bytes(std::span(coordinator_.sent_)), 4);
  ASSERT_OK(read);
  ASSERT_THAT(read->records, SizeIs(2));
  EXPECT_EQ(read->records[1].task, "task of b");
  EXPECT_EQ(read->records[1].examples, 15);
  EXPECT_EQ(read->records[1].steps, 4);
  EXPECT_GT(read->records[1].update_norm, 0);
  const std::string reference = Reference({"a", "b"});
  EXPECT_TRUE(std::ranges::equal(read->rest, std::as_bytes(std::span(reference))));
  EXPECT_EQ(coordinator_.plan_fetches_, 1);
  EXPECT_EQ(coordinator_.model_fetches_, 1);
  EXPECT_THAT(coordinator_.failures_, IsEmpty());
  // Who holds something asks often, and who has nothing lets its poll be held once it was told what it waits for.
  EXPECT_EQ(coordinator_.requests_[0].hold_ms, 20'000);
  EXPECT_FALSE(coordinator_.requests_[0].told);
  EXPECT_LE(coordinator_.requests_[1].hold_ms, 1000);
  EXPECT_EQ(coordinator_.requests_[3].hold_ms, 20'000);
  EXPECT_TRUE(coordinator_.requests_[3].told);
}

// What it had is offered to others by whoever refuses it.
TEST_F(SiteTest, CoordinatorElsewhereRefusesThePartial_NothingIsGivenUp) {
  coordinator_.elsewhere_ = true;
  coordinator_.submitted_ = SubmitResult{SubmitResult::Kind::kRefused, "its round is closed"};
  coordinator_.script_ = {Tasks({"a"}), HandOverOf({"a"}), Tasks({"b"}), HandOverOf({"b"})};
  ASSERT_OK(Run());
  EXPECT_THAT(coordinator_.submissions_, SizeIs(2));
  EXPECT_THAT(coordinator_.failures_, IsEmpty());
}

TEST_F(SiteTest, CoordinatorElsewhereAdmitsNoSite_EndsWithItsSentence) {
  coordinator_.elsewhere_ = coordinator_.refuses_sites_ = true;
  coordinator_.script_ = {Tasks({"a"}), HandOverOf({"a"})};
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kPermissionDenied, "no such site"));
}

TEST_F(SiteTest, NothingToDo_WaitsAsLongAsItIsTold) {
  PollReply wait;
  wait.wait_ms = 40;
  coordinator_.script_ = {wait, wait};
  ASSERT_OK(Run());
  EXPECT_THAT(coordinator_.waits_, ElementsAre(40, 40));
}

TEST_F(SiteTest, Stopped_SaysNothingMore) {
  coordinator_.script_ = {Tasks({"a", "b"})};
  stop_.Stop();
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(coordinator_.requests_, IsEmpty());
  EXPECT_THAT(coordinator_.failures_, IsEmpty());
}

}  // namespace
}  // namespace rivulet
