// Every registered piece that a scenario's section chooses: what its table says, that its options are keys, and that
// each option has an effect.
#include <algorithm>
#include <map>
#include <set>

#include "engine/data/example.h"
#include "federated/download/download.h"
#include "federated/scenario/scenario.h"
#include "federated/server_optimizers/server_rate.h"
#include "federated/settings/setting_tables.h"
#include "federated/settings/traits.h"
#include "setup/feature_shift.h"
#include "setup/partition.h"
#include "setup/run_setup.h"
#include "tests/testing/memory_dataset.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

struct Kind {
  std::string name;      // of the tables
  std::string section;   // of the keys that their options are
  std::string selector;  // the key that chooses one
  size_t pieces = 0;     // at least
};
const std::vector<Kind>& Kinds() {
  static const std::vector<Kind> kinds = {{"partitioner", "data.partition", "data.partition.kind", 8},
                                          {"law of sizes", "data.partition", "data.partition.sizes", 7},
                                          {"feature shift", "data.shift", "data.shift.kind", 4},
                                          {"schedule", "client.schedule", "client.schedule.kind", 5},
                                          {"server schedule", "server.schedule", "server.schedule.kind", 4},
                                          {"optimizer", "client.optimizer", "client.optimizer.kind", 8},
                                          {"loss scale", "client.loss_scale", "client.loss_scale.kind", 3},
                                          {"codec", "update", "update.codec", 18},
                                          {"generator", "data.synth", "data.synth.kind", 1}};
  return kinds;
}

// Calls visit(kind, table, setting) for every option.
template <typename Visit>
void ForEachOption(const Visit& visit) {
  for (const Kind& kind : Kinds())
    for (const SettingTable* table : SettingTablesOf(kind.name))
      for (const Setting& setting : table->settings) visit(kind, *table, setting);
}

const ScenarioKey* KeyNamed(const std::string& name) {
  const auto found = std::ranges::find(ScenarioKeys(), name, &ScenarioKey::name);
  return found == ScenarioKeys().end() ? nullptr : &*found;
}

TEST(KindsCensus, EveryPiece_IsAChoiceOfItsKeyWithADoc) {
  for (const Kind& kind : Kinds()) {
    const std::vector<const SettingTable*> tables = SettingTablesOf(kind.name);
    EXPECT_GE(tables.size(), kind.pieces) << kind.name;
    const ScenarioKey* key = KeyNamed(kind.selector);
    ASSERT_NE(key, nullptr) << kind.selector;
    for (const SettingTable* table : tables) {
      EXPECT_FALSE(table->doc.empty()) << kind.name << " " << table->name;
      EXPECT_THAT(key->allowed, ::testing::HasSubstr(fmt::format("\"{}\"", table->name)));
      EXPECT_THAT(key->doc, ::testing::ContainsRegex(fmt::format("`{}`[^:.]*: ", table->name)));
      EXPECT_THAT(key->doc, ::testing::HasSubstr(fmt::format("`: {}", table->doc)));
    }
  }
}

TEST(KindsCensus, EveryOption_HasADocARangeAndAKey) {
  // Names of features and files, which have no range.
  const std::set<std::string> names = {"key", "property", "distribution"};
  ForEachOption([&](const Kind& kind, const SettingTable& table, const Setting& setting) {
    SCOPED_TRACE(fmt::format("{} {}.{}", kind.name, table.name, setting.name));
    EXPECT_GT(setting.doc.size(), 15u);
    EXPECT_FALSE(setting.example.empty());
    EXPECT_TRUE(!setting.Allowed().empty() || setting.type == SettingType::kBoolean || names.contains(setting.name) ||
                !table.KindChosenBy(setting.name).empty());
    const ScenarioKey* key = KeyNamed(fmt::format("{}.{}", kind.section, setting.name));
    ASSERT_NE(key, nullptr);
    EXPECT_THAT(key->doc, ::testing::HasSubstr(setting.doc));
    // An option of all pieces of a kind applies where there are graphs, or always.
    if (!key->applies_when.empty() && key->applies_when != "model.arrays is not given") {
      EXPECT_THAT(key->applies_when, ::testing::HasSubstr(kind.selector));
      if (!key->applies_when.ends_with("is given")) {
        EXPECT_THAT(key->applies_when, ::testing::HasSubstr(fmt::format("\"{}\"", table.name)));
      }
    }
  });
}

// 120 examples of ten labels by six writers, each with an age.
testing::MemoryDataset Examples() {
  std::vector<std::string> records;
  for (int i = 0; i < 120; ++i) {
    const float age = static_cast<float>(i * 37 % 120);
    records.push_back(ExampleBuilder()
                          .Int64("label", i % 10)
                          .Bytes("writer", std::string(1, static_cast<char>('a' + i % 6)))
                          .Bytes("author", std::string(1, static_cast<char>('k' + i % 5)))
                          .Floats("age", std::span(&age, 1))
                          .Serialize());
  }
  return testing::MemoryDataset(std::move(records));
}

class KindsEffects : public testing::FolderTest {
 protected:
  // What a run of this scenario is by: its shares, its plan and its server's learning rates. Or why there is none.
  std::string Outcome(const std::vector<std::pair<std::string, std::string>>& overrides) {
    std::string text =
        "model.preset = \"logistic_regression\"\n[data]\npartition.clients = 4\n[server]\nclients_per_round = 2\n";
    const auto scenario = Scenario::Parse(text, "s.toml", "/scenarios", overrides);
    if (!scenario.ok()) return std::string(Message(scenario.status()));
    const auto shares = Partition(data_, scenario->data.partition, "label", 1);
    if (!shares.ok()) return std::string(Message(shares.status()));
    std::string outcome;
    for (int64_t i = 0; i < shares->size(); ++i) {
      outcome += shares->NameAt(i);
      for (const uint32_t example : shares->ExamplesOf(i)) outcome += fmt::format(" {}", example);
    }
    outcome += scenario->data.train;
    RunSetup setup(*scenario);
    const auto plan = setup.plan();
    if (!plan.ok()) return std::string(Message(plan.status()));
    outcome += (*plan)->bytes();
    for (const int64_t version : {1, 7, 50, 150})
      outcome += fmt::format(" {}", ServerLearningRate(scenario->server, version));
    const ShiftConfig& shift = scenario->data.shift;
    if (!shift.kind.empty()) outcome += *ShiftText(shift, 4);
    return outcome;
  }

  const testing::MemoryDataset data_ = Examples();
};

// An option that does nothing does not exist: its example gives another outcome than its default.
TEST_F(KindsEffects, EveryOption_ChangesWhatComesOut) {
  // Values that matter to this data where the example does not.
  const std::string shares =
      Write("shares.csv", "1,1,1,1,1,1,1,1,1,1\n1,1,1,1,1,1,1,1,1,2\n1,1,1,1,1,1,1,1,1,3\n1,1,1,1,1,1,1,1,1,4\n");
  const std::map<std::string, std::string> values = {{"label_dirichlet.min_examples", "29"},
                                                     {"distribution.distribution", shares}};
  ForEachOption([&](const Kind& kind, const SettingTable& table, const Setting& setting) {
    const std::string option = fmt::format("{}.{}", table.name, setting.name);
    SCOPED_TRACE(option);
    std::vector<std::pair<std::string, std::string>> overrides = {{kind.selector, table.name}};
    // What else it needs to be seen.
    if (table.name == "continuous" && setting.name != "property")
      overrides.emplace_back("data.partition.property", "age");
    const std::string without = Outcome(overrides);
    const auto value = values.find(option);
    overrides.emplace_back(fmt::format("{}.{}", kind.section, setting.name),
                           value == values.end() ? setting.example : value->second);
    const std::string with = Outcome(overrides);
    EXPECT_NE(with, without);
    EXPECT_THAT(with, ::testing::Not(::testing::HasSubstr("unknown key")));
    EXPECT_THAT(with, ::testing::Not(::testing::HasSubstr("has an effect only when")));
  });
}

TEST(DownloadCodecs, AreThoseThatSendWholeModels) {
  const ScenarioKey* key = KeyNamed("server.download");
  ASSERT_NE(key, nullptr);
  for (const SettingTable* codec : SettingTablesOf("codec")) {
    const auto named = ::testing::HasSubstr(fmt::format("\"{}\"", codec->name));
    if (codec->HasTrait(kSendsWholeModels)) {
      EXPECT_THAT(key->allowed, named);
    } else {
      EXPECT_THAT(key->allowed, ::testing::Not(named));
    }
  }
  EXPECT_TRUE(HasTrait("codec", "int8", kSendsWholeModels));
  EXPECT_FALSE(HasTrait("codec", "top_k", kSendsWholeModels));
  EXPECT_FALSE(HasTrait("codec", "sign", kSendsWholeModels));
}

}  // namespace
}  // namespace rivulet
