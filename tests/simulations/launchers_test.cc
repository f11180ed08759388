// What stands behind ranks and workers: how tasks are dealt, what goes between processes, and, with threads in the
// place of processes, that the bits are those of one.
#include <numeric>

#include "simulations/launchers/open_ranks.h"
#include "simulations/launchers/rank_crew.h"
#include "simulations/launchers/rank_messages.h"
#include "simulations/launchers/split_by_cost.h"
#include "tests/simulations/ten_algorithms.h"
#include "tests/simulations/thread_ranks.h"
#include "tests/simulations/whole_runs.h"

namespace rivulet {
namespace {

using namespace std::string_view_literals;
using ::testing::ElementsAre;
using testing::ThreadRanks;

using Split = std::vector<std::vector<size_t>>;

TEST(SplitByCostTest, EqualCosts_AreDealtEvenly) {
  const std::vector<int64_t> costs(7, 5), capacities = {1, 1, 1};
  EXPECT_THAT(SplitByCost(costs, capacities), ElementsAre(SizeIs(3), SizeIs(2), SizeIs(2)));
}

TEST(SplitByCostTest, OneCostlyTask_StandsAlone) {
  EXPECT_EQ(SplitByCost(std::vector<int64_t>{1, 2, 9, 3, 3}, std::vector<int64_t>{1, 1}), (Split{{2}, {0, 1, 3, 4}}));
}

TEST(SplitByCostTest, WhoHasTwoPlaces_GetsTwiceAsMuch) {
  EXPECT_EQ(SplitByCost(std::vector<int64_t>(6, 1), std::vector<int64_t>{2, 1}), (Split{{0, 2, 3, 5}, {1, 4}}));
}

TEST(SplitByCostTest, TasksWithoutCost_AreDealtToo) {
  EXPECT_EQ(SplitByCost(std::vector<int64_t>{0, 0}, std::vector<int64_t>{1, 1}), (Split{{0}, {1}}));
  EXPECT_EQ(SplitByCost({}, std::vector<int64_t>{1, 1}), (Split{{}, {}}));
}

// Property: every task once, and nobody waits longer than Graham's bound for the last one.
TEST(SplitByCostTest, AnyCosts_AreWithinTheBound) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<int64_t> costs(random() % 40), capacities(1 + random() % 5, 1);
    for (int64_t& cost : costs) cost = 1 + static_cast<int64_t>(random() % 100);
    const Split split = SplitByCost(costs, capacities);
    std::vector<size_t> all;
    int64_t longest = 0;
    for (const auto& tasks : split) {
      int64_t sum = 0;
      for (const size_t task : tasks) sum += costs[task];
      longest = std::max(longest, sum);
      all.insert(all.end(), tasks.begin(), tasks.end());
    }
    std::sort(all.begin(), all.end());
    std::vector<size_t> each(costs.size());
    std::iota(each.begin(), each.end(), 0);
    EXPECT_EQ(all, each);
    const int64_t total = std::accumulate(costs.begin(), costs.end(), int64_t{0});
    const int64_t most = costs.empty() ? 0 : *std::max_element(costs.begin(), costs.end());
    EXPECT_LE(longest, total / std::ssize(capacities) + most);
  }
}

TEST(PackedTest, Fields_ComeAsTheyWerePut) {
  const std::string bytes = std::move(Packer().Text("a\0b"sv).Number(-3).Number(2.5).Text("")).Take();
  Unpacker fields(bytes);
  EXPECT_EQ(fields.Text(), "a\0b"sv);
  EXPECT_EQ(fields.Number<int>(), -3);
  EXPECT_EQ(fields.Number<double>(), 2.5);
  EXPECT_EQ(fields.Text(), "");
  EXPECT_TRUE(fields.ok());
  EXPECT_EQ(fields.Number<int>(), 0);
  EXPECT_FALSE(fields.ok());
}

TEST(PackedTest, EveryTruncation_IsNoticed) {
  const std::string bytes = std::move(Packer().Text("task").Number(1)).Take();
  for (size_t size = 0; size < bytes.size(); ++size) {
    Unpacker fields(std::string_view(bytes).substr(0, size));
    fields.Text();
    fields.Number<int64_t>();
    EXPECT_FALSE(fields.ok()) << size;
  }
}

TEST(PackedTest, NumberOfNoValue_IsNoticed) {
  for (const int64_t number : {int64_t{-1}, int64_t{2}, int64_t{256}, int64_t{1} << 32}) {
    const std::string bytes = std::move(Packer().Number(number)).Take();
    Unpacker fields(bytes);
    EXPECT_EQ(fields.OneOf(TaskKind::kEvaluate), TaskKind::kTrain);
    EXPECT_FALSE(fields.ok()) << number;
  }
}

// Numbers travel as 8 bytes: a narrower type must not hide what is beyond it.
TEST(TaskPackingTest, FieldOutOfItsRange_IsNoticed) {
  Task task;
  task.plan = Sha256Of("plan");
  task.inputs = {{"model", {BlobId::Form::kModel, Sha256Of("model")}}};
  const auto readable = [](const Task& task, const std::function<void(std::string&)>& change) {
    Packer packer;
    Put(packer, task);
    std::string bytes = std::move(packer).Take();
    change(bytes);
    Unpacker from(bytes);
    TakeTask(from);
    return from.ok();
  };
  const size_t texts = 4 * 8 + 8 + 32;  // four empty texts and the plan
  EXPECT_TRUE(readable(task, [](std::string&) {}));
  EXPECT_FALSE(readable(task, [&](std::string& bytes) { bytes[texts] = 2; })) << "kind";
  EXPECT_FALSE(readable(task, [&](std::string& bytes) { bytes[texts + 1] = 1; })) << "kind, 256";
  EXPECT_FALSE(readable(task, [&](std::string& bytes) { bytes[texts + 15] = '\x80'; })) << "step";
  EXPECT_FALSE(readable(task, [&](std::string& bytes) { bytes[texts + 26] = 1; })) << "ordinal, 65536";
  EXPECT_FALSE(readable(task, [&](std::string& bytes) { bytes[texts - 40] = 31; })) << "a digest's length";
  EXPECT_FALSE(readable(task, [&](std::string& bytes) { bytes[texts + 56 + 13] = 3; })) << "a blob's form";

  Packer packer;
  Put(packer, TaskFailure{.task = "t"});
  std::string bytes = std::move(packer).Take();
  bytes[8 + 1 + 8 + 8] = 10;
  Unpacker from(bytes);
  TakeFailure(from);
  EXPECT_FALSE(from.ok()) << "a failure's code";
}

TEST(TaskPackingTest, TaskAndFailure_ComeAsTheyWere) {
  Task task;
  task.id = "run/r1-a1/client";
  task.client_id = "client";
  task.kind = TaskKind::kEvaluate;
  task.base_version = 3;
  task.ordinal = 7;
  task.stream_key = ~uint64_t{0};
  task.plan = Sha256Of("plan");
  task.inputs = {{"model", {BlobId::Form::kModel, Sha256Of("model")}}};
  task.state_of = "earlier";
  task.gather = 1u << 31;
  task.numbers = {{"mu", 0.1}, {"weight", 3}};
  Packer packer;
  Put(packer, task);
  Put(packer, TaskFailure{"t", TaskFailure::Code::kBadExample, "label", {{"record", 12}}, "label 12"});
  const std::string bytes = std::move(packer).Take();
  Unpacker from(bytes);
  const Task taken = TakeTask(from);
  EXPECT_EQ(taken.id, task.id);
  EXPECT_EQ(taken.kind, task.kind);
  EXPECT_EQ(taken.base_version, 3);
  EXPECT_EQ(taken.ordinal, 7);
  EXPECT_EQ(taken.stream_key, task.stream_key);
  EXPECT_EQ(taken.plan, task.plan);
  ASSERT_THAT(taken.inputs, SizeIs(1));
  EXPECT_EQ(taken.inputs[0].id, task.inputs[0].id);
  EXPECT_EQ(taken.state_of, task.state_of);
  EXPECT_EQ(taken.gather, task.gather);
  EXPECT_EQ(taken.numbers, task.numbers);
  const TaskFailure failure = TakeFailure(from);
  EXPECT_EQ(failure.counts.at("record"), 12);
  EXPECT_EQ(failure.sentence, "label 12");
  EXPECT_TRUE(from.ok());
}

TEST(InvitationTest, Bytes_ComeAsTheyWere) {
  const Invitation invitation{"run", "print", "[run]\nname = 'a'\n"};
  const auto read = Invitation::FromBytes(invitation.ToBytes());
  ASSERT_OK(read);
  EXPECT_EQ(read->run_id, "run");
  EXPECT_EQ(read->fingerprint, "print");
  EXPECT_EQ(read->scenario, invitation.scenario);
  EXPECT_THAT(Invitation::FromBytes("RVJOIN2\n\n\n"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(OpenRanksTest, OnlyWhatMpiSays_MakesARank) {
  std::map<std::string, std::string> variables;
  const auto variable = [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  EXPECT_FALSE(StartedAsRank(variable));
  variables["SLURM_NTASKS"] = "4";  // as a plain srun has it: processes that know nothing of each other
  EXPECT_FALSE(StartedAsRank(variable));
  variables["PMIX_RANK"] = variables["PMIX_NAMESPACE"] = "0";
  EXPECT_TRUE(StartedAsRank(variable));
  variables["OMPI_COMM_WORLD_SIZE"] = "1";
  EXPECT_FALSE(StartedAsRank(variable));
  variables["OMPI_COMM_WORLD_SIZE"] = "2";
  EXPECT_TRUE(StartedAsRank(variable));
}

// A rank that takes part, and of whose answers one is changed on its way to rank 0. Keeps the orders that it gets.
class LyingRank final : public Ranks {
 public:
  using Change = std::function<std::string(const std::string&)>;
  LyingRank(Ranks& honest, int answer, Change change) : honest_(honest), answer_(answer), change_(std::move(change)) {}
  const std::vector<std::string>& orders() const { return orders_; }
  int rank() const override { return honest_.rank(); }
  int size() const override { return honest_.size(); }
  int local() const override { return honest_.local(); }
  int local_rank() const override { return honest_.local_rank(); }
  void Broadcast(std::string& bytes) override {
    honest_.Broadcast(bytes);
    orders_.push_back(bytes);
  }
  std::string Scatter(const std::vector<std::string>& parts) override { return honest_.Scatter(parts); }
  std::vector<std::string> Gather(const std::string& bytes) override {
    return honest_.Gather(++answers_ == answer_ ? change_(bytes) : bytes);
  }
  void Sum(std::span<int64_t> sums) override { honest_.Sum(sums); }
  void Sum(std::span<int32_t> sums) override { honest_.Sum(sums); }

 private:
  Ranks& honest_;
  const int answer_;
  const Change change_;
  int answers_ = 0;
  std::vector<std::string> orders_;
};

// Rank 1 of 2, whose rank 0 is a list of orders. It gets no tasks, and its answers go nowhere.
class OrderedRank final : public Ranks {
 public:
  explicit OrderedRank(std::vector<std::string> orders) : orders_(std::move(orders)) {}
  int rank() const override { return 1; }
  int size() const override { return 2; }
  int local() const override { return 2; }
  int local_rank() const override { return 1; }
  void Broadcast(std::string& bytes) override { bytes = next_ < orders_.size() ? orders_[next_++] : Dismissal(); }
  std::string Scatter(const std::vector<std::string>&) override { return std::move(Packer().Number(size_t{0})).Take(); }
  std::vector<std::string> Gather(const std::string&) override { return {}; }
  void Sum(std::span<int64_t>) override {}
  void Sum(std::span<int32_t>) override {}
  size_t taken() const { return next_; }

 private:
  static std::string Dismissal() {
    return std::move(Packer().Number(static_cast<int64_t>(RankOrder::kDismiss))).Take();
  }
  const std::vector<std::string> orders_;
  size_t next_ = 0;
};

TEST(FollowRanksTest, OrderThatIsNotKnown_EndsTheRankAndIsNamed) {
  for (const int64_t number : {int64_t{3}, int64_t{-1}, int64_t{256}, int64_t{1} << 32}) {
    OrderedRank ranks({std::move(Packer().Number(number)).Take()});
    const Status status = FollowRanks(ranks, {});
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal));
    EXPECT_THAT(Message(status),
                HasSubstr(fmt::format("rank 0 sends order {}, which this program does not know", number)));
  }
}

TEST(FollowRanksTest, OrderWithoutItsNumber_EndsTheRank) {
  for (const std::string& order : {std::string(), std::string(7, '\0')}) {
    OrderedRank ranks({order});
    EXPECT_THAT(Message(FollowRanks(ranks, {})), HasSubstr(fmt::format("an order of {} bytes", order.size())));
  }
}

TEST(FollowRanksTest, StepBeforeItTakesPart_EndsTheRank) {
  OrderedRank ranks({std::move(Packer().Number(static_cast<int64_t>(RankOrder::kStep))).Take()});
  EXPECT_THAT(Message(FollowRanks(ranks, {})), HasSubstr("takes part in no run"));
}

TEST(FollowRanksTest, JoinThatFails_LeavesTheRankToItsOrders) {
  OrderedRank ranks({std::move(Packer().Number(static_cast<int64_t>(RankOrder::kJoin)).Text("?").Text("")).Take()});
  EXPECT_OK(FollowRanks(ranks, {}));
  EXPECT_EQ(ranks.taken(), 1u);
}

class RanksTest : public SimulatorTest {
 protected:
  // Answer number `lie` of each other rank is changed by `change`.
  Trace ByRanks(const Scenario& scenario, int size, int workers = 1, int lie = 0,
                const std::function<std::string(const std::string&)>& change = nullptr) {
    ThreadRanks ranks(size);
    std::vector<std::thread> others;
    for (int rank = 1; rank < size; ++rank) {
      others.emplace_back([&, rank] {
        LyingRank one(ranks.at(rank), lie, change);
        EXPECT_OK(FollowRanks(one, {.workers = workers}));
        if (rank == 1) orders_ = one.orders();
      });
    }
    TraceRecorder recorder;
    Trace trace;
    trace.status = [&]() -> Status {
      RIVULET_ASSIGN_OR_RETURN(const auto simulation,
                               Simulation::Create({.scenario = scenario,
                                                   .db_path = Path(fmt::format("ranks-{}-{}.sqlite", ++runs_, size)),
                                                   .workers = workers,
                                                   .ranks = &ranks.at(0),
                                                   .observer = recorder.Observer()}));
      RIVULET_ASSIGN_OR_RETURN(const SimulationResult result, simulation->Run());
      trace = recorder.trace();
      trace.final_digest = result.model->ComputeDigest().Hex();
      return absl::OkStatus();
    }();
    DismissRanks(ranks.at(0));
    for (std::thread& other : others) other.join();
    return trace;
  }
  int runs_ = 0;
  std::vector<std::string> orders_;  // of the last run, to rank 1
};

TEST_F(RanksTest, StepThatCannotBeRead_EndsTheRank) {
  ASSERT_OK(ByRanks(SmallScenario(), 2).status);
  ASSERT_GE(orders_.size(), 3u);  // to take part, steps, the dismissal
  const std::string &join = orders_[0], &step = orders_[1];
  std::vector<std::string> changed;
  for (const size_t bytes : {size_t{8}, size_t{15}, size_t{16}, step.size() - 1})
    changed.push_back(step.substr(0, bytes));
  changed.push_back(step);
  changed.back()[16 + 8] = 2;  // the first gathering's kind
  for (const std::string& order : changed) {
    SCOPED_TRACE(order.size());
    OrderedRank ranks({join, order});
    EXPECT_THAT(Message(FollowRanks(ranks, {.workers = 1})), HasSubstr("a step that this program cannot read"));
  }
  OrderedRank honest({join});
  EXPECT_OK(FollowRanks(honest, {.workers = 1}));
}

TEST_F(RanksTest, SecureSums_AreThoseOfOneProcess) {
  Scenario scenario = SmallScenario();
  scenario.run.rounds = 2;
  scenario.privacy.clip = 0.75;
  scenario.secure.protocol = "secagg_plus";
  const Trace one = Simulate(scenario, 2, "one.sqlite"), ranks = ByRanks(scenario, 3);
  ASSERT_OK(one.status);
  ASSERT_OK(ranks.status);
  EXPECT_EQ(ranks.digests, one.digests);
}

TEST_F(RanksTest, AnyNumberOfRanks_SameBitsAndTasks) {
  Scenario scenario = SmallScenario();
  scenario.evaluation.federated_every = 2;
  const Trace one = Simulate(scenario, 1, "one.sqlite");
  ASSERT_OK(one.status);
  for (const int size : {2, 4}) {
    const Trace many = ByRanks(scenario, size, size == 2 ? 2 : 1);
    ASSERT_OK(many.status);
    EXPECT_EQ(many.digests, one.digests) << size;
    EXPECT_EQ(many.central, one.central) << size;
    EXPECT_EQ(many.offers, one.offers) << size;
    EXPECT_EQ(many.ends, one.ends) << size;
  }
}

// What clients keep and what a version sends beside its model goes to the ranks; rules that need all updates, and
// updates that start from different versions, are brought together too.
TEST_F(RanksTest, EachOfTenAlgorithms_SameBits) {
  for (const testing::TenthAlgorithm& algorithm : testing::TenAlgorithms()) {
    SCOPED_TRACE(algorithm.name);
    Scenario scenario = SmallScenario();
    if (algorithm.name == "moon") scenario.model.preset = "mlp";
    algorithm.set(scenario);
    const Trace one = Simulate(scenario, 2, algorithm.name + ".sqlite");
    ASSERT_OK(one.status);
    const Trace three = ByRanks(scenario, 3);
    ASSERT_OK(three.status);
    EXPECT_EQ(three.digests, one.digests);
  }
}

TEST_F(RanksTest, PartsOfSomeUpdates_SameBits) {
  Scenario scenario = SmallScenario();
  scenario.algorithm = {.name = "ifca"};
  const Trace one = Simulate(scenario, 2, "one.sqlite");
  ASSERT_OK(one.status);
  EXPECT_EQ(ByRanks(scenario, 3).digests, one.digests);
}

TEST_F(RanksTest, AttackersAreThere_SameBits) {
  Scenario scenario = SmallScenario();
  scenario.attack = {.name = "alie", .fraction = 0.4, .settings = {{"z", 1.5}, {"colluders", int64_t{3}}}};
  const Trace one = Simulate(scenario, 2, "one.sqlite");
  ASSERT_OK(one.status);
  EXPECT_EQ(ByRanks(scenario, 2).digests, one.digests);
}

// The answers are: to the invitation, of a step what went wrong, and of its partial sum the counts.
TEST_F(RanksTest, GarbageFromARank_EndsTheRunWithASentence) {
  constexpr int kInvitation = 1, kReport = 2, kCounts = 3;
  const std::string high(100, '\xFF');
  const auto no_records = [](const std::string& counts) {
    Unpacker from(counts);
    const size_t records = from.Text().size();
    EXPECT_GT(records, 0u);
    return std::move(Packer().Text("")).Take() + counts.substr(8 + records);
  };
  const std::vector<std::pair<int, LyingRank::Change>> lies = {
      {kInvitation, [](const auto&) { return ""; }},
      {kInvitation, [&](const auto&) { return high; }},
      {kInvitation,  // an entry for each of its threads would fill rank 0's memory
       [](const auto&) { return std::move(Packer().Text("").Number(int64_t{1} << 62).Text("the processor")).Take(); }},
      {kReport, [](const auto&) { return ""; }},
      {kReport, [&](const auto&) { return high; }},
      {kReport, [](const auto& bytes) { return bytes.substr(0, bytes.size() - 1); }},
      {kReport,  // a failure of a task of nobody
       [](const auto&) {
         Packer report;
         report.Text("").Number(size_t{1});
         Put(report, TaskFailure{.task = "nobody's", .sentence = "it is wrong"});
         return std::move(report.Number(size_t{0})).Take();
       }},
      {kReport,  // a state where nobody keeps any
       [](const auto&) {
         return std::move(Packer().Text("").Number(size_t{0}).Number(size_t{1}).Text("c").Text("t").Text("s")).Take();
       }},
      {kCounts, [](const auto&) { return ""; }},
      {kCounts, [&](const auto&) { return high; }},
      {kCounts, [&](const auto& bytes) { return std::move(Packer().Text(high)).Take() + bytes; }},
      {kCounts, no_records}};  // as if it had trained nothing: the coordinator would wait for its tasks
  for (const auto& [answer, change] : lies) {
    SCOPED_TRACE(answer);
    EXPECT_THAT(ByRanks(SmallScenario(), 2, 1, answer, change).status, ::testing::Not(testing::IsOk()));
  }
}

TEST_F(RanksTest, DataThatIsNotThere_IsSaidByTheRankThatMissesIt) {
  Scenario scenario = SmallScenario();
  scenario.data.train = Path("absent.tfrecord");
  EXPECT_THAT(Message(ByRanks(scenario, 2).status), HasSubstr("absent.tfrecord"));
}

}  // namespace
}  // namespace rivulet
