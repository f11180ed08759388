// Options of [algorithm], with tables of two algorithms that only this program has.
#include "federated/scenario/scenario.h"
#include "federated/settings/setting_tables.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::ErrorOf;
using ::testing::HasSubstr;
using Overrides = std::vector<std::pair<std::string, std::string>>;

const SettingTableRegistration kProx({"algorithm",
                                      "test_prox",
                                      {Float("pull", 0.01, "Pull.").AtLeast(0),
                                       Text("norm", "l2", "Which.").OneOf({"l1", "l2"}),
                                       Integers("taps", std::vector<int64_t>{1, 2}, "Where.")}});
const SettingTableRegistration kMoon({"algorithm", "test_moon", {Float("tau", std::nullopt, "Heat.").Above(0)}});

constexpr const char* kRest = R"([model]
preset = "mlp"
[data]
train = "t.tfrecord"
partition = { kind = "iid", clients = 100 }
)";

StatusOr<Scenario> Parse(const std::string& algorithm, const Overrides& overrides = {}) {
  return Scenario::Parse(algorithm + kRest, "s.toml", "/scenarios", overrides);
}
std::string Refusal(const std::string& algorithm, const Overrides& overrides = {}) {
  return ErrorOf(Parse(algorithm, overrides));
}

TEST(AlgorithmOptions, NotGiven_AreTheTablesDefaults) {
  ASSERT_OK_AND_ASSIGN(const Scenario scenario, Parse("[algorithm]\nname = \"test_prox\"\npull = 1\n"));
  EXPECT_EQ(scenario.algorithm.settings,
            (SettingValues{{"pull", 1.0}, {"norm", std::string("l2")}, {"taps", std::vector<int64_t>{1, 2}}}));
  EXPECT_THAT(Parse("")->algorithm.settings, ::testing::IsEmpty());
}

TEST(AlgorithmOptions, ToTomlReadsBackTheSame) {
  ASSERT_OK_AND_ASSIGN(const Scenario scenario,
                       Parse("[algorithm]\nname = \"test_prox\"\npull = 0.5\nnorm = \"l1\"\ntaps = 3\n"));
  const std::string text = scenario.ToToml();
  EXPECT_THAT(text, HasSubstr("[algorithm]\nname = \"test_prox\"\nnorm = \"l1\"\npull = 0.5\ntaps = [3]\n"));
  for (const auto& again : {Scenario::Parse(text, "again", "/"), Scenario::ParseStored(text, "stored")}) {
    ASSERT_OK(again);
    EXPECT_EQ(again->ToToml(), text);
    EXPECT_EQ(again->algorithm.settings, scenario.algorithm.settings);
  }
}

TEST(AlgorithmOptions, Overrides_ReachThem) {
  const std::string file = "algorithm = { name = \"test_prox\", pull = 0.5 }\n";
  ASSERT_OK_AND_ASSIGN(const Scenario other, Parse(file, {{"algorithm.pull", "0.25"}}));
  EXPECT_EQ(other.algorithm.settings.at("pull"), SettingValue(0.25));
  ASSERT_OK_AND_ASSIGN(const Scenario table, Parse("", {{"algorithm", "{ name = \"test_moon\", tau = 2 }"}}));
  EXPECT_EQ(table.algorithm.settings.at("tau"), SettingValue(2.0));
}

TEST(AlgorithmOptions, AnotherAlgorithmBySet_DropsTheFilesOptions) {
  const std::string file = "[algorithm]\nname = \"test_prox\"\npull = 0.5\n";
  ASSERT_OK_AND_ASSIGN(const Scenario scenario, Parse(file, {{"algorithm.name", "fedavg"}}));
  EXPECT_THAT(scenario.algorithm.settings, ::testing::IsEmpty());
  EXPECT_THAT(
      Refusal(file, {{"algorithm.name", "fedavg"}, {"algorithm.pull", "1"}}),
      HasSubstr("algorithm.pull in --set belongs to test_prox; remove it, or change algorithm.name = \"fedavg\""));
}

TEST(AlgorithmOptions, Mistakes_AreRefusedByName) {
  EXPECT_EQ(Refusal("[algorithm]\npull = 0.5\n"),
            "algorithm.pull in s.toml:2:8 belongs to test_prox; remove it, or change algorithm.name = \"fedavg\" (the "
            "default)");
  EXPECT_EQ(Refusal("[algorithm]\nname = \"test_prox\"\nnrom = \"l1\"\n"),
            "unknown key 'algorithm.nrom' in s.toml:3:8. Did you mean 'algorithm.norm'?");
  EXPECT_EQ(Refusal("[algorithm]\nname = \"test_prox\"\nepochs = 1\n"),
            "unknown key 'algorithm.epochs' in s.toml:3:10. Did you mean 'client.epochs'?");
  EXPECT_EQ(Refusal("[algorithm]\nnu = 1\n"), "unknown key 'algorithm.nu' in s.toml:2:6.");
  EXPECT_EQ(Refusal("[algorithm]\nname = \"test_prox\"\npull = -1\n"),
            "algorithm.pull in s.toml:3:8 must be at least 0, not -1");
  EXPECT_EQ(Refusal("[algorithm]\nname = \"test_prox\"\npull = { a = 1 }\n"),
            "algorithm.pull in s.toml:3:8 must be a number, not a table");
  EXPECT_EQ(Refusal("[algorithm]\nname = \"test_moon\"\n"),
            "algorithm.name = \"test_moon\" (s.toml:2:8): tau must be given: above 0");
  EXPECT_THAT(Refusal("[algorithm]\nname = \"test_porx\"\n"), HasSubstr("Did you mean 'test_prox'?"));
}

TEST(SettingTables, AreFoundByKindAndName) {
  EXPECT_THAT(SettingTableNames("algorithm"), ::testing::IsSupersetOf({"fedavg", "test_moon", "test_prox"}));
  EXPECT_THAT(OwnersOf("algorithm", "tau"), ::testing::IsSupersetOf({"fedadam", "test_moon"}));
  EXPECT_THAT(OwnersOf("codec", "tau"), ::testing::IsEmpty());
  EXPECT_EQ(ErrorOf(FindSettingTable("algorithm", "test_morn")),
            "there is no algorithm 'test_morn'. Did you mean 'test_moon'?");
}

TEST(SettingTablesDeathTest, TwoOfOneName_EndTheProgram) {
  EXPECT_DEATH(SettingTableRegistration({"algorithm", "test_moon", {}}),
               "two tables of settings are of the algorithm 'test_moon'");
}

}  // namespace
}  // namespace rivulet
