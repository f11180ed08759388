#include "setup/plan_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "setup/run_setup.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

constexpr char kText[] = R"toml(
[model]
preset = "logistic_regression"
[data]
train = "train.tfrecord"
partition = { kind = "iid", clients = 4 }
[client]
optimizer = { kind = "sgd", learning_rate = 0.1 }
[server]
clients_per_round = 2
)toml";

class PlanFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = ::testing::TempDir() + "plan_fileXXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    path_ = folder_ + "/tiny.plan";
    const auto scenario = Scenario::Parse(kText, "tiny.toml", folder_, {{"run.seed", "12"}});
    ASSERT_OK(scenario);
    scenario_ = *scenario;
    RunSetup setup(scenario_);
    const auto plan = setup.plan();
    ASSERT_OK(plan);
    plan_ = *plan;
    ASSERT_OK(WritePlanFile(FileSystem::Default(), path_, *plan_, scenario_));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  StatusOr<PlanFile> Read(const std::vector<std::pair<std::string, std::string>>& overrides = {}) {
    RIVULET_ASSIGN_OR_RETURN(const Scenario now, Scenario::Parse(kText, "tiny.toml", folder_, overrides));
    return ReadPlanFile(FileSystem::Default(), path_, now);
  }
  void Spoil(const std::string& path, std::streamoff at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(at);
    file.put(byte);
  }

  std::string folder_, path_;
  Scenario scenario_;
  std::shared_ptr<const Plan> plan_;
};

// Every path of a scenario is either of the plan, or of whoever runs it.
TEST_F(PlanFileTest, PlanHoldsFiles_OfEveryKeyWhoseFileIsInIt) {
  EXPECT_FALSE(PlanHoldsFiles(scenario_));
  int held = 0;
  for (const ScenarioKey& key : ScenarioKeys()) {
    if (key.key_class != KeyClass::kPlace) continue;
    const std::string section = key.name.substr(0, key.name.find('.'));
    // A base is in no plan: the coordinator needs its file.
    const bool of_place = section == "data" || section == "selection" || section == "devices" || section == "server" ||
                          key.name == "model.base";
    const auto scenario = Scenario::Parse(kText, "tiny.toml", folder_, {{key.name, key.example}});
    if ((of_place || key.name == "model.columns") && !scenario.ok()) continue;  // it applies beside others only
    ASSERT_OK(scenario) << key.name;
    EXPECT_EQ(PlanHoldsFiles(*scenario), !of_place) << key.name;
    held += of_place ? 0 : 1;
  }
  EXPECT_EQ(held, 6);
  Scenario columns = scenario_;
  columns.model.columns = "columns.json";
  EXPECT_TRUE(PlanHoldsFiles(columns));
}

TEST_F(PlanFileTest, Read_IsThePlanAndItsKeys) {
  ASSERT_OK_AND_ASSIGN(const PlanFile file, Read({{"run.rounds", "3"}}));
  EXPECT_EQ(file.plan->bytes(), plan_->bytes());
  EXPECT_EQ(file.scenario.run.seed, 12u);
  EXPECT_EQ(file.scenario.run.rounds, 3);
}

// What clients get says nothing of the seed, from which the randomness of all of them follows.
TEST_F(PlanFileTest, AnotherSeed_IsTheSamePlanAndOtherKeys) {
  ASSERT_OK_AND_ASSIGN(const Scenario other, Scenario::Parse(kText, "tiny.toml", folder_, {{"run.seed", "13"}}));
  RunSetup setup(other);
  ASSERT_OK_AND_ASSIGN(const auto plan, setup.plan());
  EXPECT_EQ(plan->bytes(), plan_->bytes());
  EXPECT_NE(other.PlanKeysToToml(), scenario_.PlanKeysToToml());
}

TEST_F(PlanFileTest, Contradiction_IsRefusedByTheKey) {
  EXPECT_THAT(Read({{"client.optimizer.learning_rate", "0.2"}}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("client.optimizer.learning_rate was 0.1 when the plan was built")));
}

TEST_F(PlanFileTest, Damage_IsRefusedInASentence) {
  Spoil(path_, 100);
  EXPECT_THAT(Read(), StatusIs(absl::StatusCode::kDataLoss,
                               HasSubstr("do not belong together, or one of them is damaged; build both again")));
  Spoil(path_, 100);
  ASSERT_OK(Read());
  Spoil(PlanKeysPath(path_), 200);
  EXPECT_THAT(Read(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("tiny.plan.keys.toml")));
}

TEST_F(PlanFileTest, KeysThatAreNotThere_AreNamed) {
  std::filesystem::remove(PlanKeysPath(path_));
  EXPECT_THAT(Read(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("tiny.plan.keys.toml' is not beside the plan")));
  std::filesystem::remove(path_);
  EXPECT_THAT(Read(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("tiny.plan")));
}

}  // namespace
}  // namespace rivulet
