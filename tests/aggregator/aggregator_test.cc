// Aggregators in one process: clients with invented deltas call aggregators, and these call the coordinator. Models
// must not depend on an update's path or on an aggregator's failures.
#include "aggregator/aggregator.h"

#include <gmock/gmock.h>

#include <thread>

#include "federated/updates/task_records.h"
#include "tests/coordinator/test_run.h"
#include "tests/testing/partial_bytes.h"
#include "tests/testing/record_of.h"
#include "tree.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr int64_t kTreeElements = 5, kClients = 6, kPerRound = 4, kRounds = 4;

class AggregatorTest : public ::testing::Test {
 protected:
  AggregatorTest() : parts_(TinyParts(kTreeElements, kPerRound)) {
    parts_.aggregation.scalars = {{.name = "train_loss"}};
  }
  ~AggregatorTest() override {
    for (std::thread& client : clients_) client.join();
  }
  CoordinatorOptions Options(const std::string& db) {
    CoordinatorOptions options;
    options.scenario = TinyScenario(kClients, kPerRound, kRounds);
    options.scenario.server.min_clients = kClients;
    options.db_path = folder_.File(db);
    return options;
  }
  // Without an aggregator.
  std::map<int64_t, std::string> Flat() {
    CoordinatorOptions options = Options("flat.sqlite");
    FakeFleet fleet(options);
    fleet.act = [this](Coordinator& coordinator, const std::string& name, const Task& task) {
      const Status worked = WorkOn(coordinator, name, task, parts_).status();
      EXPECT_TRUE(worked.ok() || Message(worked) == "the run has ended") << Message(worked);
    };
    const auto coordinator = Value(CreateCoordinator(options, parts_));
    EXPECT_OK(fleet.Run(*coordinator, Names(kClients)));
    return Value(DigestsOfRun(options.db_path, coordinator->run_id()));
  }
  void Start() {
    CoordinatorOptions options = Options("tree.sqlite");
    options.observer.on_progress = [this](int64_t round, int64_t folded, int64_t) {
      MutexLock lock(mutex_);
      progress_ = {round, folded};
      changed_.NotifyAll();
    };
    options.observer.on_event = [this](const EventRow& event) {
      MutexLock lock(mutex_);
      events_.push_back(event.message);
      changed_.NotifyAll();
    };
    coordinator_ = Value(CreateCoordinator(options, parts_));
    root_.Set(coordinator_.get());
  }
  std::unique_ptr<RunningAggregator> AggregatorOf(const std::string& name, Address& parent) {
    ways_.push_back(std::make_unique<ThroughAddress>(parent));
    return std::make_unique<RunningAggregator>(*ways_.back(), name, parts_, folder_.File(""));
  }
  void StartClient(const std::string& name, Address& address) {
    clients_.emplace_back([this, name, &address] { EXPECT_OK(LiveAsClient(address, name, parts_)) << name; });
  }
  std::map<int64_t, std::string> Tree() {
    return Value(DigestsOfRun(folder_.File("tree.sqlite"), coordinator_->run_id()));
  }
  void WaitForProgress(int64_t round, int64_t folded) {
    MutexLock lock(mutex_);
    while (progress_ < std::pair(round, folded)) changed_.Wait(mutex_);
  }
  void WaitForEvent(std::string_view part) {
    MutexLock lock(mutex_);
    const auto has = [&] {
      return std::ranges::any_of(events_, [&](const std::string& e) { return e.find(part) != std::string::npos; });
    };
    while (!has()) changed_.Wait(mutex_);
  }
  std::vector<std::string> Ways() {  // of the tasks, by aggregator
    std::vector<std::string> ways;
    auto history = Value(History::Open(folder_.File("tree.sqlite"), History::Access::kReadOnly));
    for (const ClientRoundRow& row : Value(history->ClientRounds(coordinator_->run_id()))) {
      ways.push_back(row.parent_id);
      EXPECT_EQ(row.status, "folded");
    }
    return ways;
  }
  void TreeOfDepthOne() {
    Start();
    Address north, south;
    auto aggregators = std::array{AggregatorOf("north", root_), AggregatorOf("south", root_)};
    north.Set(&aggregators[0]->aggregator());
    south.Set(&aggregators[1]->aggregator());
    for (int64_t i = 0; i < kClients; ++i) StartClient(Names(kClients)[static_cast<size_t>(i)], i % 2 ? north : south);
    EXPECT_OK(coordinator_->Wait());
    for (const auto& aggregator : aggregators) EXPECT_OK(aggregator->End());
    JoinClients();
  }
  void JoinClients() {
    for (std::thread& client : clients_) client.join();
    clients_.clear();
  }

  TestFolder folder_;
  RunParts parts_;
  Mutex mutex_;
  CondVar changed_;
  std::pair<int64_t, int64_t> progress_;
  std::vector<std::string> events_;
  std::unique_ptr<Coordinator> coordinator_;
  Address root_;
  std::vector<std::unique_ptr<ThroughAddress>> ways_;
  std::vector<std::thread> clients_;
};

TEST_F(AggregatorTest, TwoAggregators_GiveTheBitsOfNone) {
  const auto flat = Flat();
  TreeOfDepthOne();
  EXPECT_EQ(Tree(), flat);
  EXPECT_THAT(flat, SizeIs(kRounds));
  EXPECT_THAT(Ways(), Contains("north"));
  EXPECT_THAT(Ways(), Contains("south"));
  EXPECT_THAT(Ways(), Not(Contains("")));
}

TEST_F(AggregatorTest, RuleThatNeedsAllUpdates_GivesTheBitsOfNone) {
  parts_.aggregation.rule = "trimmed_mean";
  parts_.aggregation.rule_settings = {{"trim", 0.25}};
  const auto flat = Flat();
  TreeOfDepthOne();
  EXPECT_EQ(Tree(), flat);
}

// An aggregator passes on what clients decode as it is: all start from one model, which is not the server's own.
TEST_F(AggregatorTest, VersionsThatTravelByACodec_GiveTheBitsOfNone) {
  const auto exact = Flat();
  for (const char* codec : {"f16", "int8"}) {
    SCOPED_TRACE(codec);
    parts_.download = codec;
    const auto flat = Flat();
    EXPECT_THAT(flat, SizeIs(kRounds));
    EXPECT_NE(flat, exact);
    TreeOfDepthOne();
    EXPECT_EQ(Tree(), flat);
    coordinator_.reset();
  }
}

// A partial has sums of every part, and a client's update is in those of one.
TEST_F(AggregatorTest, PartsOfSomeUpdates_GiveTheBitsOfNone) {
  PartSpec& first = parts_.aggregation.parts[0];
  first.optional = true;
  first.only_where = {"cluster", 0};
  PartSpec second = first;
  second.name = "cluster_1";
  second.only_where->value = 1;
  parts_.aggregation.parts.push_back(second);
  parts_.broadcasts = {"cluster_1"};
  parts_.server_optimizer = {"clusters"};
  parts_.draw_model = [layout = parts_.layout](std::string_view) -> StatusOr<std::shared_ptr<const Model>> {
    auto model = std::make_shared<Model>(layout);
    for (const Slice& slice : layout->slices())
      for (float& value : model->tensor(slice).flat<float>()) value = 2;
    return model;
  };
  const auto flat = Flat();
  EXPECT_THAT(flat, SizeIs(kRounds));
  TreeOfDepthOne();
  EXPECT_EQ(Tree(), flat);
}

TEST_F(AggregatorTest, AggregatorsBelowAnAggregator_GiveTheBitsOfNone) {
  const auto flat = Flat();
  Start();
  Address middle, leaf_a, leaf_b;
  auto aggregator = AggregatorOf("middle", root_);
  middle.Set(&aggregator->aggregator());
  auto leaves = std::array{AggregatorOf("leaf a", middle), AggregatorOf("leaf b", middle)};
  leaf_a.Set(&leaves[0]->aggregator());
  leaf_b.Set(&leaves[1]->aggregator());
  const std::vector<std::string> names = Names(kClients);
  Address* const where[] = {&leaf_a, &leaf_b, &leaf_a, &middle, &root_, &leaf_b};
  for (size_t i = 0; i < names.size(); ++i) StartClient(names[i], *where[i]);
  EXPECT_OK(coordinator_->Wait());
  EXPECT_OK(aggregator->End());
  for (const auto& leaf : leaves) EXPECT_OK(leaf->End());
  JoinClients();
  EXPECT_EQ(Tree(), flat);
  EXPECT_THAT(Ways(), Contains("middle"));
  EXPECT_THAT(Ways(), Contains("")) << "one calls the coordinator itself";
}

TEST_F(AggregatorTest, KilledInMidRoundAndStartedAgain_ItsClientsDoTheSameAgain) {
  const auto flat = Flat();
  Start();
  Address north, none;
  auto aggregator = AggregatorOf("north", root_);
  north.Set(&aggregator->aggregator());
  const std::vector<std::string> names = Names(kClients);
  // The last one comes to nobody until the aggregator has been killed, holding what the others have brought.
  for (size_t i = 0; i + 1 < names.size(); ++i) StartClient(names[i], north);
  const auto last = north.Do([&](CoordinatorApi& api) { return api.Poll(AskedBy(names.back())); });
  EXPECT_OK(last);
  WaitForProgress(1, 1);
  north.Set(nullptr);
  aggregator.reset();
  aggregator = AggregatorOf("north", root_);
  north.Set(&aggregator->aggregator());
  StartClient(names.back(), north);
  EXPECT_OK(coordinator_->Wait());
  EXPECT_OK(aggregator->End());
  JoinClients();
  EXPECT_EQ(Tree(), flat);
  EXPECT_THAT(Ways(), Not(Contains("")));
}

TEST_F(AggregatorTest, MiddleAggregatorIsKilled_ThoseBelowGoOn) {
  const auto flat = Flat();
  Start();
  Address middle, leaf;
  auto aggregator = AggregatorOf("middle", root_);
  middle.Set(&aggregator->aggregator());
  auto below = AggregatorOf("leaf", middle);
  leaf.Set(&below->aggregator());
  for (const std::string& name : Names(kClients)) StartClient(name, leaf);
  WaitForProgress(2, 1);
  middle.Set(nullptr);
  while (below->said().empty()) std::this_thread::yield();  // it has noticed
  aggregator.reset();
  aggregator = AggregatorOf("middle", root_);
  middle.Set(&aggregator->aggregator());
  EXPECT_OK(coordinator_->Wait());
  EXPECT_OK(aggregator->End());
  EXPECT_OK(below->End());
  JoinClients();
  EXPECT_EQ(Tree(), flat);
  EXPECT_THAT(below->said(), Contains("nobody listens there; it is tried again until it answers"));
  EXPECT_THAT(below->said(), Contains("the parent answers again"));
}

// An aggregator by hand: says that it serves all, holds whatever it is given, and brings what `lie` makes of it.
Status BringALie(CoordinatorApi& api, const std::string& name, const RunParts& parts,
                 const std::function<std::string(std::vector<TaskRecord> records, const Aggregation& sum)>& lie) {
  PollRequest request;
  request.caller = {.name = name, .session = 77};
  request.capabilities.version = "test";
  request.want = 64;
  request.serves.kind = Serves::Kind::kNames;
  for (const std::string& client : Names(kClients)) request.serves.names.push_back({client, {{"train", 5}}});
  auto sum = *Aggregation::Create(parts.aggregation);
  std::vector<TaskRecord> records;
  for (;;) {
    RIVULET_ASSIGN_OR_RETURN(const PollReply reply, api.Poll(request));
    request.serves.names.clear();
    for (const Task& task : reply.tasks) {
      const std::vector<float> delta(static_cast<size_t>(kTreeElements), 1);
      const PartView part{.name = "delta", .data = std::as_bytes(std::span(delta))};
      TaskRecord record = RecordOf(task.id, {{"examples", 10}, {"steps", 6}, {"train_loss", 0.5}});
      record.update_norm = 1;
      RIVULET_ASSIGN_OR_RETURN(const Weights weights, WeightsOf(parts.aggregation, record.declared, {}));
      RIVULET_RETURN_IF_ERROR(sum->Take({task.id, task.base_version, {&part, 1}, record.declared}, weights).status());
      records.push_back(std::move(record));
      request.working_on.push_back({task.id, true});
    }
    if (reply.hand_over.empty()) continue;
    const std::string bytes = lie(records, *sum);
    Submission submission;
    submission.kind = Submission::Kind::kPartial;
    submission.gather = reply.hand_over[0].gather;
    submission.bytes = std::ssize(bytes);
    RIVULET_ASSIGN_OR_RETURN(const auto writer, api.Submit(request.caller, submission));
    RIVULET_RETURN_IF_ERROR(writer->Resume(0));
    RIVULET_RETURN_IF_ERROR(writer->Write(std::as_bytes(std::span(bytes))));
    RIVULET_ASSIGN_OR_RETURN(const SubmitResult result, writer->Finish(IdentityOf(bytes)));
    EXPECT_EQ(result.kind, SubmitResult::Kind::kRefused);
    return api.Poll(request).status();
  }
}

std::string PartialOf(const std::vector<TaskRecord>& records, const Aggregation& sum) {
  return WriteTaskRecords(records) + testing::BytesOf(sum.spec(), sum.Save().at(0));
}

TEST_F(AggregatorTest, CorruptPartial_IsRefusedAndRecordedAndTheSameClientsDoItAgain) {
  const auto flat = Flat();
  Start();
  EXPECT_THAT(BringALie(*coordinator_, "north", parts_,
                        [](const std::vector<TaskRecord>& records, const Aggregation& sum) {
                          std::string bytes = PartialOf(records, sum);
                          bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
                          return bytes;
                        }),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("fix it and restart it")));
  WaitForEvent("the partial sum of site 'north' is refused");
  Address north;
  auto aggregator = AggregatorOf("north", root_);
  north.Set(&aggregator->aggregator());
  for (const std::string& name : Names(kClients)) StartClient(name, north);
  EXPECT_OK(coordinator_->Wait());
  EXPECT_OK(aggregator->End());
  JoinClients();
  EXPECT_EQ(Tree(), flat);
}

TEST_F(AggregatorTest, AggregatorThatClaimsATaskItWasNotGiven_IsRefusedAndRecorded) {
  const auto flat = Flat();
  Start();
  EXPECT_OK(BringALie(*coordinator_, "north", parts_, [this](std::vector<TaskRecord> records, const Aggregation& sum) {
    const auto name = *TaskNameOf(records[0].task, coordinator_->run_id());
    auto other = *Aggregation::Create(sum.spec());
    const std::vector<float> delta(static_cast<size_t>(kTreeElements), 1);
    const PartView part{.name = "delta", .data = std::as_bytes(std::span(delta))};
    records.resize(1);
    records[0].task = TaskIdOf(coordinator_->run_id(), {name.kind, name.round, name.attempt, "somebody", 0});
    EXPECT_OK(other->Take({records[0].task, 0, {&part, 1}, records[0].declared},
                          *WeightsOf(sum.spec(), records[0].declared, {})));
    return PartialOf(records, *other);
  }));
  WaitForEvent("has no task");
  Address north;
  auto aggregator = AggregatorOf("north", root_);
  north.Set(&aggregator->aggregator());
  for (const std::string& name : Names(kClients)) StartClient(name, north);
  EXPECT_OK(coordinator_->Wait());
  JoinClients();
  EXPECT_EQ(Tree(), flat);
}

TEST_F(AggregatorTest, CorruptPartialOfAnAggregatorBelow_HarmsNobodyElse) {
  const auto flat = Flat();
  Start();
  Address middle, leaf;
  auto aggregator = AggregatorOf("middle", root_);
  middle.Set(&aggregator->aggregator());
  EXPECT_THAT(BringALie(aggregator->aggregator(), "leaf", parts_,
                        [](const std::vector<TaskRecord>& records, const Aggregation& sum) {
                          std::string bytes = PartialOf(records, sum);
                          bytes.back() = static_cast<char>(bytes.back() ^ 1);
                          return bytes;
                        }),
              StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(aggregator->said(), Contains(HasSubstr("the partial sum of aggregator 'leaf' is refused")));
  auto below = AggregatorOf("leaf", middle);
  leaf.Set(&below->aggregator());
  for (const std::string& name : Names(kClients)) StartClient(name, leaf);
  EXPECT_OK(coordinator_->Wait());
  JoinClients();
  EXPECT_EQ(Tree(), flat);
}

TEST_F(AggregatorTest, ClientWithoutTheDataSet_IsToldTheCoordinatorsReason) {
  Start();
  auto aggregator = AggregatorOf("north", root_);
  const PollRequest request{As("client-00000"), {.version = "test", .datasets = {{"other", 5}}}};
  StatusOr<PollReply> reply = aggregator->aggregator().Poll(request);
  while (reply.ok()) {
    EXPECT_THAT(reply->tasks, IsEmpty());
    aggregator->aggregator().AwaitWork(request.caller, reply->epoch, 2);
    reply = aggregator->aggregator().Poll(request);
  }
  EXPECT_THAT(reply, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has bound no data set 'train'")));
  coordinator_->Stop();
}

PollRequest AggregatorPoll(const std::string& name, uint64_t session, std::vector<std::string> serves) {
  PollRequest request;
  request.caller = {.name = name, .session = session};
  request.capabilities.version = "test";
  request.serves.kind = Serves::Kind::kNames;
  for (std::string& client : serves) request.serves.names.push_back({std::move(client), {{"train", 5}}});
  return request;
}

TEST_F(AggregatorTest, ClientThatCallsItself_CannotBeClaimedByAnAggregator) {
  Start();
  ASSERT_OK(coordinator_->Poll(AskedBy("client-00001")));
  const auto reply = coordinator_->Poll(AggregatorPoll("north", 1, {"client-00001", "client-00002"}));
  ASSERT_OK(reply);
  ASSERT_THAT(reply->refused_names, SizeIs(1));
  EXPECT_EQ(reply->refused_names[0].name, "client-00001");
  EXPECT_THAT(reply->refused_names[0].reason, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("served directly")));
  // Nor one of another aggregator; but whoever calls itself is believed.
  EXPECT_THAT(coordinator_->Poll(AggregatorPoll("south", 1, {"client-00002"}))->refused_names, SizeIs(1));
  ASSERT_OK(coordinator_->Poll(AskedBy("client-00002")));
  EXPECT_THAT(coordinator_->Poll(AggregatorPoll("north", 1, {"client-00002"}))->refused_names, SizeIs(1));
  coordinator_->Stop();
}

TEST_F(AggregatorTest, NamesOfAggregatorsAndClients_AreNotMixedUp) {
  Start();
  ASSERT_OK(coordinator_->Poll(AskedBy("client-00001")));
  EXPECT_THAT(coordinator_->Poll(AggregatorPoll("client-00001", 1, {})), StatusIs(absl::StatusCode::kPermissionDenied));
  ASSERT_OK(coordinator_->Poll(AggregatorPoll("north", 1, {})));
  EXPECT_THAT(coordinator_->Poll(AskedBy("north")), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(coordinator_->Poll(AggregatorPoll("south", 1, {"north"}))->refused_names, SizeIs(1));
  coordinator_->Stop();
}

// Once the parent has answered for its client; an aggregator below that is told to ask again would ask for ever.
TEST_F(AggregatorTest, UnknownTaskOfAClientBelow_IsSaidToBeUnknown) {
  Start();
  auto aggregator = AggregatorOf("middle", root_);
  CoordinatorApi& middle = aggregator->aggregator();
  const PollRequest poll = AggregatorPoll("leaf", 1, {"client-00002"});
  ASSERT_OK(middle.Poll(poll));
  Caller leaf = poll.caller;
  leaf.run_id = coordinator_->run_id();
  const TaskId task = TaskIdOf(leaf.run_id, {.round = 9, .attempt = 1, .client_id = "client-00002"});
  Status told;
  do {
    told = middle.Submit(leaf, {.task = task, .bytes = 4}).status();
  } while (absl::IsUnavailable(told));
  EXPECT_THAT(told, StatusIs(absl::StatusCode::kNotFound, HasSubstr(task)));
  const TaskId others = TaskIdOf(leaf.run_id, {.round = 9, .attempt = 1, .client_id = "client-00003"});
  EXPECT_THAT(middle.Submit(leaf, {.task = others, .bytes = 4}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("'leaf'")));
  coordinator_->Stop();
}

TEST_F(AggregatorTest, SecondProcessOfAnAggregator_TakesThePlaceOfTheFirst) {
  Start();
  ASSERT_OK(coordinator_->Poll(AggregatorPoll("north", 1, {})));
  ASSERT_OK(coordinator_->Poll(AggregatorPoll("north", 2, {})));
  EXPECT_THAT(coordinator_->Poll(AggregatorPoll("north", 1, {})),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("another process of aggregator 'north'")));
  ASSERT_OK(coordinator_->Poll(AggregatorPoll("north", 2, {})));
  coordinator_->Stop();
}

}  // namespace
}  // namespace rivulet
