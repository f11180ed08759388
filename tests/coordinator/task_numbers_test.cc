// Numbers that tasks bring: of the version that they start from, moved by what its clients told, gone on with after a
// restart, and held against what updates declare.
#include <gmock/gmock.h>

#include "federated/numbers/number_rule.h"
#include "federated/population/population.h"
#include "test_run.h"

namespace rivulet {
namespace {

using ::rivulet::testing::ErrorOf;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr int64_t kNumberedElements = 3;

std::string UpdateThatSays(double loss, double weight) {
  proto::Update update;
  const std::vector<float> ones(kNumberedElements, 1.0f);
  proto::UpdatePart& part = *update.add_parts();
  part.set_name("delta");
  part.set_data(ones.data(), ones.size() * sizeof(float));
  auto& scalars = *update.mutable_scalars();
  scalars["examples"] = scalars["steps"] = 1;
  scalars["train_loss"] = loss;
  scalars["weight"] = weight;
  return update.SerializeAsString();
}

class TaskNumbersTest : public ::testing::Test {
 protected:
  TaskNumbersTest() {
    parts_ = TinyParts(kNumberedElements, 2);
    parts_.numbers = {"weight"};
    parts_.number_rule = {"agnostic", {{"learning_rate", 0.1}, {"least", 0.25}}};
    parts_.aggregation.weight_fraction_bits = 12;
    parts_.aggregation.parts[0].weigh = "scalar:weight";
    options_.scenario = TinyScenario(2, 2, 2);
    options_.db_path = folder_.db();
  }

  // Runs to the end, the first client with a loss of 1 and the second with one of 2; what the tasks of each brought.
  void Run(std::map<std::string, std::vector<double>>& brought) {
    CoordinatorOptions options = options_;
    FakeFleet fleet(options);
    fleet.act = [&](Coordinator& coordinator, const std::string& client_id, const Task& task) {
      ASSERT_THAT(task.numbers, ElementsAre(Pair("weight", ::testing::_)));
      const double weight = task.numbers.at("weight");
      brought[client_id].push_back(weight);
      EXPECT_OK(Send(coordinator, client_id, task.id, UpdateThatSays(client_id == Names(2)[0] ? 1 : 2, weight)));
    };
    ASSERT_OK_AND_ASSIGN(const auto coordinator, CreateCoordinator(options, parts_));
    ASSERT_OK(fleet.Run(*coordinator, Names(2)));
  }

  TestFolder folder_;
  CoordinatorOptions options_;
  RunParts parts_;
};

// Each version moves both by a tenth of what their losses differ, in units of a half, until one counts the least.
TEST_F(TaskNumbersTest, TasksOfAVersion_BringItsOwnAlsoAfterARestart) {
  std::map<std::string, std::vector<double>> brought;
  Run(brought);
  options_.resume = "latest";
  options_.scenario.run.rounds = 5;
  Run(brought);
  const auto near = [](double value) { return DoubleNear(value, 1e-12); };
  EXPECT_THAT(brought.at(Names(2)[0]), ElementsAre(1, near(0.9), near(0.8), near(0.7), near(0.6)));
  EXPECT_THAT(brought.at(Names(2)[1]), ElementsAre(1, near(1.1), near(1.2), near(1.3), near(1.4)));
}

TEST_F(TaskNumbersTest, UpdateThatDeclaresAnother_IsRefused) {
  ASSERT_OK_AND_ASSIGN(const auto coordinator, CreateCoordinator(options_, parts_));
  ASSERT_OK(Join(*coordinator, Names(2)));
  const std::string client = Names(2)[0];
  ASSERT_OK_AND_ASSIGN(const PollReply reply, coordinator->Poll(AskedBy(client)));
  ASSERT_EQ(reply.tasks.size(), 1u);
  ASSERT_OK_AND_ASSIGN(const SubmitResult result,
                       Send(*coordinator, client, reply.tasks[0].id, UpdateThatSays(1, 1000)));
  EXPECT_EQ(result.kind, SubmitResult::Kind::kRefused);
  EXPECT_THAT(result.reason, HasSubstr("does not declare its task's number 'weight', 1"));
  coordinator->Stop();
}

// Each version's file holds what every client told.
TEST_F(TaskNumbersTest, MoreMembersThanTheRuleKeepsNumbersOf_AreRefused) {
  options_.population = NumberedPopulation(100'001);
  options_.scenario.algorithm.name = "agnostic";
  EXPECT_EQ(ErrorOf(CreateCoordinator(options_, parts_)),
            "[algorithm] name = \"agnostic\" keeps numbers of each client in each version, and there are 100001 "
            "clients; take at most 100000 (data.partition.clients)");
}

// Of whom nothing says how many there will be, as many as that get in.
class OfTwo final : public NumberRule {
 public:
  std::vector<std::string> Names() const override { return {"weight"}; }
  ServerNumbers First() const override { return {}; }
  ServerNumbers Next(const ServerNumbers& before, std::span<const ReportedLoss>, const Scalars&) const override {
    return before;
  }
  Scalars Of(const ServerNumbers&, const std::string&) const override { return {{"weight", 1}}; }
  int64_t most_clients() const override { return 2; }
};

RIVULET_NUMBER_RULE(of_two_registration, "of_two", {},
                    [](const Settings&) -> std::unique_ptr<const NumberRule> { return std::make_unique<OfTwo>(); });

TEST_F(TaskNumbersTest, WhoComesBeyondWhatTheRuleKeepsNumbersOf_IsOneTooMany) {
  parts_.number_rule = {"of_two", {}};
  options_.scenario.data.partition.clients = 0;
  ASSERT_OK_AND_ASSIGN(const auto coordinator, CreateCoordinator(options_, parts_));
  ASSERT_OK(Join(*coordinator, Names(2)));
  EXPECT_THAT(ErrorOf(Join(*coordinator, {"a third one"})),
              HasSubstr("the 2 clients that this run has room for have joined; 'a third one' is one too many"));
  coordinator->Stop();
}

TEST_F(TaskNumbersTest, RuleOfOtherNumbers_IsRefused) {
  parts_.numbers = {"mu"};
  EXPECT_EQ(ErrorOf(CreateCoordinator(options_, parts_)),
            "the plan's tasks report the numbers [mu], and the number rule 'agnostic' changes [weight]");
}

}  // namespace
}  // namespace rivulet
