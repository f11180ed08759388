// Partial sums of sites in other processes: hostile ones, lost connections, and continued work after a refusal.
#include <gmock/gmock.h>

#include <set>

#include "coordinator/coordinator.h"
#include "coordinator/intake/site_partial.h"
#include "federated/updates/task_records.h"
#include "test_run.h"
#include "tests/testing/partial_bytes.h"
#include "tests/testing/record_of.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::span<const std::byte> AsBytes(const std::string& bytes) { return std::as_bytes(std::span(bytes)); }

// A partial of tasks "t0" .. with the values 1, 2, 3 each, and their records.
struct MadePartial {
  explicit MadePartial(AggregationSpec the_spec, int tasks = 2, int64_t base_version = 4) : spec(std::move(the_spec)) {
    auto aggregation = *Aggregation::Create(spec);
    for (int i = 0; i < tasks; ++i) {
      std::vector<float> delta(static_cast<size_t>(spec.parts[0].elements));
      for (size_t k = 0; k < delta.size(); ++k) delta[k] = static_cast<float>(k % 3 + 1);
      const PartView part{.name = "delta", .data = std::as_bytes(std::span(delta))};
      const Scalars declared = {{"examples", 10.0 + i % 7}, {"steps", 6}, {"train_loss", 0.5}};
      TaskRecord record = RecordOf(fmt::format("t{}", i), declared);
      const auto taken =
          aggregation->Take({record.task, base_version, {&part, 1}, declared}, *WeightsOf(spec, declared, {}));
      EXPECT_OK(taken);
      record.update_norm = taken->norm;
      records.push_back(std::move(record));
    }
    partial = aggregation->Extract(base_version);
  }
  std::string bytes() const { return WriteTaskRecords(records) + testing::BytesOf(spec, partial); }

  AggregationSpec spec;
  Partial partial;
  std::vector<TaskRecord> records;
};

AggregationSpec SpecOf(int64_t elements, int64_t updates) {
  AggregationSpec spec = TinyParts(elements, updates).aggregation;
  spec.scalars = {{.name = "train_loss"}};
  return spec;
}

TEST(ReadSitePartialTest, Whole_IsReadAsItWasMade) {
  const MadePartial made(SpecOf(3, 4));
  const auto read = ReadSitePartial(AsBytes(made.bytes()), made.spec, 4);
  ASSERT_OK(read);
  EXPECT_EQ(testing::BytesOf(made.spec, read->partial), testing::BytesOf(made.spec, made.partial));
  ASSERT_THAT(read->records, SizeIs(2));
  EXPECT_EQ(read->records[1].examples, 11);
  EXPECT_EQ(read->records[1].update_norm, made.records[1].update_norm);
}

TEST(ReadSitePartialTest, CutInEverySection_IsRefused) {
  const std::string bytes = MadePartial(SpecOf(3, 4)).bytes();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(ReadSitePartial(AsBytes(bytes).first(size), SpecOf(3, 4), 4).ok()) << size;
  }
  EXPECT_THAT(ReadSitePartial(AsBytes(bytes + "x"), SpecOf(3, 4), 4), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(ReadSitePartialTest, AnyBitTurnedInThePartial_IsRefused) {
  const MadePartial made(SpecOf(3, 4));
  const std::string bytes = made.bytes();
  for (size_t at = WriteTaskRecords(made.records).size(); at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    EXPECT_FALSE(ReadSitePartial(AsBytes(damaged), made.spec, 4).ok()) << at;
  }
}

TEST(ReadSitePartialTest, WhatCannotBe_IsRefusedByName) {
  const auto read = [](const MadePartial& made) {
    return ReadSitePartial(AsBytes(made.bytes()), SpecOf(3, 4), 4).status();
  };
  const auto refused = [](const char* what) { return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)); };
  EXPECT_OK(read(MadePartial(SpecOf(3, 4))));
  {
    AggregationSpec other = SpecOf(3, 4);
    other.parts[0].value_bits = 3;
    EXPECT_THAT(read(MadePartial(other)), refused("belongs to another plan"));
  }
  EXPECT_THAT(read(MadePartial(SpecOf(3, 4), 2, 5)), refused("starts from version 5, and its tasks from 4"));
  {
    MadePartial made(SpecOf(3, 4));
    made.records[1].task = "t0";
    EXPECT_THAT(read(made), refused("two records of task 't0'"));
  }
  {
    MadePartial made(SpecOf(3, 4));
    made.records[1].task = "foreign";
    EXPECT_THAT(read(made), refused("has a record of task 'foreign' and no update of it"));
  }
  {
    MadePartial made(SpecOf(3, 4));
    made.records.pop_back();
    EXPECT_THAT(read(made), refused("2 updates and 1 records"));
  }
  { EXPECT_THAT(read(MadePartial(SpecOf(3, 4), 0)), refused("it needs at least one update, and one record for each")); }
  {
    MadePartial made(SpecOf(3, 4));
    made.partial.parts[0].sums[2] = int64_t{1} << 61;
    EXPECT_THAT(read(made), refused("is beyond the range of a weight of 21"));
  }
  {
    MadePartial made(SpecOf(3, 4));
    made.partial.parts[0].weight_sum += 1000;  // which would allow more
    EXPECT_THAT(read(made), refused("weighs 1021 units in part 'delta', and its records 21"));
  }
  {
    MadePartial made(SpecOf(3, 4));
    made.records[0].declared["examples"] = 1e6;
    EXPECT_THAT(read(made), refused("weighs 1000000 units"));
  }
  {
    MadePartial made(SpecOf(3, 4));
    made.records[0].declared["examples"] = 0;
    EXPECT_THAT(read(made), refused("weighs 0 units"));
  }
  {
    MadePartial made(SpecOf(3, 4));
    made.records[0].declared["train_loss"] = std::nan("");
    EXPECT_THAT(read(made), refused("train_loss = nan"));
  }
  {
    MadePartial made(SpecOf(3, 4));
    made.records[0].declared["train_loss"] = 0x1p32;
    EXPECT_THAT(read(made), refused("does not say its 'train_loss' between"));
  }
  {
    MadePartial made(SpecOf(3, 4));
    made.partial.scalars[0].Add(WideSum::Of(1, 0.5));
    EXPECT_THAT(read(made), refused("as its sum of 'train_loss', and its records come to"));
  }
}

// Each MiB of sums has its CRC, which of very large models is more than all else.
TEST(ReadSitePartialTest, MostBytes_AreNeverLessThanSumsAndTheirChecksums) {
  AggregationSpec spec = SpecOf(3, 4);
  for (const int64_t elements : {int64_t{1}, int64_t{1} << 20, int64_t{1} << 40}) {
    spec.parts[0].elements = elements;
    const int64_t sums = elements * 8, blocks = (sums + (1 << 20) - 1) >> 20;
    EXPECT_GE(MostSitePartialBytes(spec), sums + 4 * blocks) << elements;
  }
}

TEST(ReadSitePartialTest, HundredThousandTasks_AreTaken) {
  const MadePartial made(SpecOf(3, 100'000), 100'000);
  const std::string bytes = made.bytes();
  EXPECT_LT(std::ssize(bytes), MostSitePartialBytes(made.spec));
  const auto read = ReadSitePartial(AsBytes(bytes), made.spec, 4);
  ASSERT_OK(read);
  EXPECT_THAT(read->records, SizeIs(100'000));
  EXPECT_EQ(read->partial.tasks, made.partial.tasks);
}

constexpr int64_t kSiteElements = 3;

class SitePartialsTest : public ::testing::Test, public NewsListener {
 protected:
  SitePartialsTest() {
    options_.scenario = TinyScenario(6, 4, 1);
    options_.db_path = folder_.db();
    options_.enforce_deadline = false;
    options_.population = NumberedPopulation(6);
    options_.observer.on_event = [this](const EventRow& event) { events_.push_back(event.message); };
  }
  ~SitePartialsTest() override {
    if (coordinator_ != nullptr) coordinator_->SetListener(nullptr);
  }
  void Start(int64_t elements = kSiteElements) {
    parts_ = TinyParts(elements, 4);
    auto created = CreateCoordinator(options_, parts_);
    ASSERT_OK(created);
    coordinator_ = *std::move(created);
    coordinator_->SetListener(this);
  }
  void OnNews(const std::string& name) override { news_.insert(name); }

  struct RemoteSite {
    Caller caller;
    std::vector<Task> tasks;
    std::vector<TaskProgress> held;
    uint64_t gather = 0;
    std::unique_ptr<Aggregation> open;
    std::vector<TaskRecord> records;
  };
  StatusOr<PollReply> Poll(RemoteSite& site, int64_t want) {
    PollRequest request;
    request.caller = site.caller;
    request.serves.kind = Serves::Kind::kAny;
    request.want = want;
    request.working_on = std::exchange(site.held, {});
    for (const Task& task : site.tasks) request.working_on.push_back({task.id, false});
    RIVULET_ASSIGN_OR_RETURN(PollReply reply, coordinator_->Poll(request));
    site.tasks.insert(site.tasks.end(), reply.tasks.begin(), reply.tasks.end());
    return reply;
  }
  void TakeAll(RemoteSite& site, size_t tasks) {
    while (site.tasks.size() < tasks) ASSERT_OK(Poll(site, 4));
  }
  void Fold(RemoteSite& site, const Task& task) {
    const std::vector<float> delta = FakeDelta(task, *coordinator_->model());
    const int64_t examples = 10 + static_cast<int64_t>(task.client_id.back() - '0');
    if (site.open == nullptr) site.open = *Aggregation::Create(parts_.aggregation);
    site.gather = task.gather;
    const PartView part{.name = "delta", .data = std::as_bytes(std::span(delta))};
    const Scalars declared = {{"examples", static_cast<double>(examples)}, {"steps", 6}, {"train_loss", 0.5}};
    TaskRecord record = RecordOf(task.id, declared);
    record.train_seconds = 0.25;
    const auto taken = site.open->Take({task.id, task.base_version, {&part, 1}, declared}, {.parts = {examples}});
    ASSERT_OK(taken);
    record.update_norm = taken->norm;
    site.records.push_back(record);
    site.held.push_back({task.id, true});
  }
  void Work(RemoteSite& site) {
    for (const Task& task : std::exchange(site.tasks, {})) Fold(site, task);
  }
  std::string BytesOf(const RemoteSite& site) {
    return WriteTaskRecords(site.records) + testing::BytesOf(parts_.aggregation, site.open->Save().at(0));
  }
  StatusOr<std::unique_ptr<ChunkWriter>> Announce(const RemoteSite& site, const std::string& bytes) {
    Submission submission;
    submission.kind = Submission::Kind::kPartial;
    submission.gather = site.gather;
    submission.bytes = std::ssize(bytes);
    return coordinator_->Submit(site.caller, submission);
  }
  StatusOr<SubmitResult> Send(const RemoteSite& site, const std::string& bytes) {
    RIVULET_ASSIGN_OR_RETURN(const auto writer, Announce(site, bytes));
    if (writer->decided() != nullptr) return *writer->decided();
    RIVULET_RETURN_IF_ERROR(writer->Resume(0));
    RIVULET_RETURN_IF_ERROR(writer->Write(AsBytes(bytes)));
    return writer->Finish(IdentityOf(bytes));
  }
  std::vector<std::string> DigestsOf(const std::string& db) {
    std::vector<std::string> digests;
    const auto history = *History::Open(db, History::Access::kReadOnly);
    const auto run = *history->ResolveRun("latest");
    for (const RoundRow& round : Value(history->Rounds(run.run_id))) digests.push_back(round.model_digest);
    return digests;
  }
  // Of the same run by clients that send their updates.
  std::vector<std::string> Expected() {
    TestFolder other;
    CoordinatorOptions uploads;
    uploads.scenario = options_.scenario;
    uploads.db_path = other.db();
    EXPECT_OK(RunTiny(uploads, TinyParts(parts_.layout->update_elements(), 4), 6));
    return DigestsOf(other.db());
  }
  std::map<std::string, std::string> Ends() {
    const auto history = *History::Open(folder_.db(), History::Access::kReadOnly);
    std::map<std::string, std::string> ends;
    for (const ClientRoundRow& row : Value(history->ClientRounds(coordinator_->run_id()))) {
      ends[row.client_id] = row.status + (row.error.empty() ? "" : ": " + row.error);
    }
    return ends;
  }

  TestFolder folder_;
  CoordinatorOptions options_;
  RunParts parts_;
  std::vector<std::string> events_;
  std::set<std::string> news_;  // names, under the coordinator's lock
  std::unique_ptr<Coordinator> coordinator_;
  RemoteSite one_{.caller = {.name = "site 1", .session = 1}}, two_{.caller = {.name = "site 2", .session = 2}};
};

TEST_F(SitePartialsTest, TwoSites_GiveTheModelOfUploads) {
  Start();
  TakeAll(one_, 1);
  while (one_.tasks.size() + two_.tasks.size() < 4) ASSERT_OK(Poll(two_, 4));
  Work(one_);
  Work(two_);
  ASSERT_OK(Poll(one_, 0));
  news_.clear();
  const auto asked = Poll(two_, 0);
  ASSERT_OK(asked);
  ASSERT_THAT(asked->hand_over, SizeIs(1));
  EXPECT_TRUE(news_.contains("site 1")) << "a poll that is held must wake";
  EXPECT_EQ(Send(two_, BytesOf(two_))->kind, SubmitResult::Kind::kAccepted);
  EXPECT_EQ(Send(two_, BytesOf(two_))->kind, SubmitResult::Kind::kDuplicate);
  EXPECT_EQ(Send(one_, BytesOf(one_))->kind, SubmitResult::Kind::kAccepted);
  ASSERT_OK(coordinator_->Wait());
  EXPECT_EQ(DigestsOf(folder_.db()), Expected());
  EXPECT_EQ(Send(one_, BytesOf(one_))->kind, SubmitResult::Kind::kRefused) << "its round is closed";
}

TEST_F(SitePartialsTest, SiteThatWaits_HearsOfTasksThatAreFreeAgain) {
  Start();
  ASSERT_OK(Poll(two_, 0));
  TakeAll(one_, 2);
  Work(one_);
  news_.clear();
  std::string damaged = BytesOf(one_);
  damaged.back() ^= 1;
  EXPECT_EQ(Send(one_, damaged)->kind, SubmitResult::Kind::kRefused);
  EXPECT_TRUE(news_.contains("site 2"));
}

TEST_F(SitePartialsTest, RefusedPartial_ItsTasksGoToOthersAndItsSiteGetsNoMore) {
  Start();
  TakeAll(one_, 2);
  TakeAll(two_, 1);
  Work(one_);
  ASSERT_OK(Poll(one_, 0));
  std::string damaged = BytesOf(one_);
  damaged.back() ^= 1;
  const auto result = Send(one_, damaged);
  ASSERT_OK(result);
  EXPECT_EQ(result->kind, SubmitResult::Kind::kRefused);
  EXPECT_THAT(result->reason, HasSubstr("CRC-32C"));
  EXPECT_THAT(Poll(one_, 4), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("its partial sum was refused (")));
  EXPECT_THAT(Send(one_, BytesOf(one_)), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(events_, ::testing::Contains(HasSubstr("the partial sum of site 'site 1' is refused: ")));
  // The other site has what it had, and gets the rest.
  while (two_.tasks.size() < 4) ASSERT_OK(Poll(two_, 4));
  Work(two_);
  ASSERT_THAT(Poll(two_, 0)->hand_over, SizeIs(1));
  EXPECT_EQ(Send(two_, BytesOf(two_))->kind, SubmitResult::Kind::kAccepted);
  ASSERT_OK(coordinator_->Wait());
  EXPECT_EQ(DigestsOf(folder_.db()), Expected());
}

TEST_F(SitePartialsTest, RestartedSite_IsTrustedAgain) {
  Start();
  TakeAll(one_, 4);
  Work(one_);
  EXPECT_EQ(Send(one_, "RVTASKS1 nonsense")->kind, SubmitResult::Kind::kRefused);
  RemoteSite again{.caller = {.name = "site 1", .session = 9}};
  TakeAll(again, 4);
  Work(again);
  ASSERT_THAT(Poll(again, 0)->hand_over, SizeIs(1));
  EXPECT_EQ(Send(again, BytesOf(again))->kind, SubmitResult::Kind::kAccepted);
  ASSERT_OK(coordinator_->Wait());
  EXPECT_EQ(DigestsOf(folder_.db()), Expected());
}

// One holds an update, and trains on; both tasks go to another, and should it live after all it hears so.
TEST_F(SitePartialsTest, LostSite_ItsTasksGoToOthersAndItIsTold) {
  Start();
  TakeAll(one_, 2);
  const Task held = one_.tasks[0], trained = one_.tasks[1];
  Fold(one_, held);
  std::erase_if(one_.tasks, [&](const Task& task) { return task.id == held.id; });
  ASSERT_OK(Poll(one_, 0));
  news_.clear();
  ASSERT_OK(Poll(two_, 0));
  coordinator_->LoseSite("nobody");
  EXPECT_THAT(news_, IsEmpty());
  coordinator_->LoseSite("site 1");
  EXPECT_TRUE(news_.contains("site 2")) << "a poll that is held must wake";
  TakeAll(two_, 4);
  const auto told = Poll(one_, 0);
  ASSERT_OK(told);
  EXPECT_THAT(told->cancelled, ::testing::Contains(trained.id));
  EXPECT_EQ(Send(one_, BytesOf(one_))->kind, SubmitResult::Kind::kRefused);
  Work(two_);
  ASSERT_THAT(Poll(two_, 0)->hand_over, SizeIs(1));
  EXPECT_EQ(Send(two_, BytesOf(two_))->kind, SubmitResult::Kind::kAccepted);
  ASSERT_OK(coordinator_->Wait());
  EXPECT_EQ(DigestsOf(folder_.db()), Expected());
}

TEST_F(SitePartialsTest, ForeignTask_IsRefusedAndTheOthersTaskStays) {
  Start();
  TakeAll(one_, 1);
  TakeAll(two_, 1);
  const Task foreign = two_.tasks[0];
  Fold(one_, foreign);
  one_.held.clear();
  Work(one_);
  const auto result = Send(one_, BytesOf(one_));
  ASSERT_OK(result);
  EXPECT_EQ(result->kind, SubmitResult::Kind::kRefused);
  EXPECT_THAT(result->reason, HasSubstr("site 'site 1' has no task"));
  const auto reply = Poll(two_, 4);
  ASSERT_OK(reply);
  EXPECT_THAT(reply->cancelled, IsEmpty());
  while (two_.tasks.size() < 4) ASSERT_OK(Poll(two_, 4));
  Work(two_);
  ASSERT_OK(Poll(two_, 0));
  EXPECT_EQ(Send(two_, BytesOf(two_))->kind, SubmitResult::Kind::kAccepted);
  ASSERT_OK(coordinator_->Wait());
  EXPECT_EQ(DigestsOf(folder_.db()), Expected());
}

// Sites say of single tasks that they cannot be done; the next of the draw takes their place, as with any client.
TEST_F(SitePartialsTest, FailedTasksBeside_AreReplaced) {
  Start();
  TakeAll(one_, 4);
  const Task bad = one_.tasks.back();
  one_.tasks.pop_back();
  EXPECT_OK(coordinator_->Fail(one_.caller, {.task = bad.id, .code = TaskFailure::Code::kBadExample}));
  TakeAll(one_, 4);
  Work(one_);
  ASSERT_THAT(Poll(one_, 0)->hand_over, SizeIs(1));
  EXPECT_EQ(Send(one_, BytesOf(one_))->kind, SubmitResult::Kind::kAccepted);
  ASSERT_OK(coordinator_->Wait());
  const auto ends = Ends();
  ASSERT_THAT(ends, SizeIs(5));
  EXPECT_THAT(ends.at(bad.client_id), HasSubstr("failed: "));
  EXPECT_EQ(std::count_if(ends.begin(), ends.end(), [](const auto& end) { return end.second == "folded"; }), 4);
}

// 5 MiB of sums: at each the connection is lost, and the next one sends what is missing and no more.
TEST_F(SitePartialsTest, ConnectionLostAtEachMiB_GoesOn) {
  Start(640 * 1024);
  TakeAll(one_, 4);
  Work(one_);
  ASSERT_OK(Poll(one_, 0));
  const std::string bytes = BytesOf(one_);
  constexpr int64_t kBlock = BlockCrcs::kBlockBytes;
  const int64_t blocks = std::ssize(bytes) / kBlock;
  ASSERT_GE(blocks, 5);
  for (int64_t block = 0; block < blocks; ++block) {
    const auto writer = Announce(one_, bytes);
    ASSERT_OK(writer);
    EXPECT_THAT((*writer)->staged_crcs(), SizeIs(block));
    ASSERT_OK((*writer)->Resume(block * kBlock));
    const auto rest = AsBytes(bytes).subspan(static_cast<size_t>(block * kBlock));
    ASSERT_OK((*writer)->Write(rest.first(kBlock)));
    ASSERT_OK((*writer)->Write(rest.subspan(kBlock, std::min<size_t>(100, rest.size() - kBlock))));
  }
  const auto writer = Announce(one_, bytes);
  ASSERT_OK(writer);
  EXPECT_THAT((*writer)->staged_crcs(), SizeIs(blocks));
  ASSERT_OK((*writer)->Resume(blocks * kBlock));
  ASSERT_OK((*writer)->Write(AsBytes(bytes).subspan(static_cast<size_t>(blocks * kBlock))));
  EXPECT_EQ((*writer)->Finish(IdentityOf(bytes))->kind, SubmitResult::Kind::kAccepted);
  ASSERT_OK(coordinator_->Wait());
  EXPECT_EQ(DigestsOf(folder_.db()), Expected());
}

TEST_F(SitePartialsTest, AnnouncedBeyondThePlan_IsRefusedBeforeAByte) {
  Start();
  TakeAll(one_, 1);
  one_.gather = one_.tasks[0].gather;
  Submission submission;
  submission.kind = Submission::Kind::kPartial;
  submission.gather = one_.gather;
  submission.bytes = int64_t{1} << 40;
  const auto writer = coordinator_->Submit(one_.caller, submission);
  ASSERT_OK(writer);
  ASSERT_NE((*writer)->decided(), nullptr);
  EXPECT_THAT((*writer)->decided()->reason, HasSubstr("was announced, and those of this plan have 1 to"));
}

}  // namespace
}  // namespace rivulet
