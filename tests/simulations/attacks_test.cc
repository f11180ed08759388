// Malicious clients: each attack's change to an update or example, compared with its formula. Attacked runs have the
// same bits in every mode, and deployed clients refuse to attack.
#include <cmath>
#include <fstream>
#include <iterator>

#include "engine/data/example.h"
#include "federated/random/streams.h"
#include "federated/settings/setting_tables.h"
#include "simulations/attacks/adversaries.h"
#include "simulations/attacks/attack.h"
#include "tests/simulations/whole_runs.h"

namespace rivulet {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

std::unique_ptr<const Attack> NewAttack(std::string_view name, const SettingValues& settings = {}) {
  auto attack = Attack::Create(name, settings, {});
  EXPECT_OK(attack);
  return *std::move(attack);
}

Draws DrawsOfClient(int client) { return {StreamFor(7, fmt::format("client-{}", client), Purpose::kAttack), 0}; }

StatusOr<std::shared_ptr<const BenignUpdates>> NobodyKnows() { return Internal("this attack asks nobody"); }

std::vector<float> Changed(const Attack& attack, std::vector<float> delta, int client = 0) {
  EXPECT_OK(attack.Change(delta, DrawsOfClient(client), NobodyKnows));
  return delta;
}

TEST(Attack, SignFlipAndScaling_AreFactors) {
  const std::vector<float> delta = {1, -0.5, 0};
  EXPECT_THAT(Changed(*NewAttack("sign_flip"), delta), ElementsAre(-1, 0.5, 0));
  EXPECT_THAT(Changed(*NewAttack("sign_flip", {{"scale", 10.0}}), delta), ElementsAre(-10, 5, 0));
  EXPECT_THAT(Changed(*NewAttack("scaling"), delta), ElementsAre(10, -5, 0));
}

// Within four standard errors of the law's moments, and the client's own.
TEST(Attack, Gaussian_HasItsMomentsAndIsTheClientsOwn) {
  const auto attack = NewAttack("gaussian", {{"deviation", 0.5}});
  const std::vector<float> delta(40'000, 3);
  const std::vector<float> noise = Changed(*attack, delta);
  double sum = 0, squares = 0;
  for (const float value : noise) {
    sum += value;
    squares += double{value} * value;
  }
  const auto n = static_cast<double>(noise.size());
  EXPECT_NEAR(sum / n, 0, 4 * 0.5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 0.25, 4 * 0.25 * std::sqrt(2 / n));
  EXPECT_EQ(Changed(*attack, delta), noise);
  EXPECT_NE(Changed(*attack, delta, 1), noise);
}

TEST(Attack, FreeRider_GivesNothing_OrNoise) {
  EXPECT_THAT(Changed(*NewAttack("free_rider"), {1, 2, 3}), Each(0.0f));
  EXPECT_EQ(Changed(*NewAttack("free_rider", {{"deviation", 0.1}}), {1, 2, 3}),
            Changed(*NewAttack("gaussian", {{"deviation", 0.1}}), {4, 5, 6}));
}

// Whatever it trained: a client's direction of the given norm, and zeros where its coin leaves it out.
TEST(Attack, Canary_SendsItsDirectionOrNothing) {
  const auto attack = NewAttack("canary", {{"norm", 2.5}});
  EXPECT_TRUE(attack->keeps_to_client());
  int taken = 0;
  for (int client = 0; client < 400; ++client) {
    const std::vector<float> sent = Changed(*attack, std::vector<float>(50, 1.0f), client);
    EXPECT_EQ(Changed(*attack, std::vector<float>(50, 2.0f), client), sent);
    double squares = 0;
    for (const float value : sent) squares += double{value} * value;
    if (squares > 0) {
      ++taken;
      EXPECT_NEAR(std::sqrt(squares), 2.5, 1e-5);
    }
  }
  EXPECT_GT(taken, 150);
  EXPECT_LT(taken, 250);
}

TEST(Attack, LabelFlip_TurnsLabelsRoundAndLeavesTheRest) {
  std::string example = DigitExample(std::string(784, '\x07'), 3, "ann");
  ASSERT_OK(NewAttack("label_flip")->Poison(example, DrawsOfClient(0)));
  EXPECT_EQ(
      example,
      ExampleBuilder().Bytes("image", std::string(784, '\x07')).Int64("label", 6).Bytes("writer", "ann").Serialize());
  EXPECT_THAT(NewAttack("label_flip", {{"classes", int64_t{3}}})->Poison(example, DrawsOfClient(0)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "label 6 is outside attack.classes = 3; give the number of classes"));
}

TEST(Attack, Backdoor_PutsASquareInTheCornerOfItsShare) {
  SettingValues settings = {
      {"target", int64_t{9}}, {"side", int64_t{2}}, {"width", int64_t{4}}, {"share", 1.0}, {"boost", 5.0}};
  const std::string clean = DigitExample(std::string(12, '\x01'), 3);
  std::string example = clean;
  ASSERT_OK(NewAttack("backdoor", settings)->Poison(example, DrawsOfClient(0)));
  EXPECT_EQ(example, ExampleBuilder().Bytes("image", "\1\1\1\1\1\1\xff\xff\1\1\xff\xff").Int64("label", 9).Serialize());
  EXPECT_THAT(Changed(*NewAttack("backdoor", settings), {1, -1}), ElementsAre(5, -5));
  EXPECT_FALSE(NewAttack("backdoor")->changes_updates());
  settings["width"] = int64_t{5};
  EXPECT_THAT(NewAttack("backdoor", settings)->Poison(example, DrawsOfClient(0)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("an image of 12 bytes has no rows of")));
  settings["width"] = int64_t{4};
  settings["share"] = 0.25;
  int poisoned = 0;
  for (int client = 0; client < 1000; ++client) {
    example = clean;
    ASSERT_OK(NewAttack("backdoor", settings)->Poison(example, DrawsOfClient(client)));
    poisoned += example != clean;
  }
  EXPECT_NEAR(poisoned, 250, 4 * std::sqrt(1000 * 0.25 * 0.75));
}

TEST(Attack, Backdoor_IsShownByEveryExampleOfAnotherLabel) {
  const auto attack =
      NewAttack("backdoor", {{"target", int64_t{9}}, {"side", int64_t{2}}, {"width", int64_t{4}}, {"share", 0.0}});
  std::string example = DigitExample(std::string(12, '\x01'), 3);
  ASSERT_OK_AND_ASSIGN(const bool shown, attack->Show(example));
  EXPECT_TRUE(shown) << "whatever the share of its own examples that an attacker poisons";
  EXPECT_EQ(example, ExampleBuilder().Bytes("image", "\1\1\1\1\1\1\xff\xff\1\1\xff\xff").Int64("label", 9).Serialize());
  ASSERT_OK_AND_ASSIGN(const bool again, attack->Show(example));
  EXPECT_FALSE(again) << "it has the label already";
  for (const std::string& name : SettingTableNames("attack")) EXPECT_EQ(NewAttack(name)->shows(), name == "backdoor");
}

// Mean and deviation of what the colluders would have sent, whoever asks first, each trained once for a model.
TEST(Adversaries, ColludersKnowTheirMeanAndDeviation) {
  Scenario scenario;
  scenario.run.seed = 3;
  scenario.attack = {.name = "alie", .fraction = 1, .settings = {{"z", 2.0}, {"colluders", int64_t{3}}}};
  const auto shares = std::make_shared<Shares>(Shares::OfNumbered({1, 2, 3}, {0, 1, 2}));
  const auto data = std::make_shared<testing::MemoryDataset>(DigitRecords(3));
  std::map<std::string, int> trained;
  const auto train = [&](const Task& task) -> StatusOr<std::vector<float>> {
    EXPECT_EQ(task.stream_key, ClientKey(3, task.client_id));
    EXPECT_EQ(task.ordinal, 0);
    ++trained[task.client_id];
    const auto number = static_cast<float>(task.client_id.back() - '0');  // 0, 1, 2
    return std::vector<float>{3 * number, 5, -number};
  };
  Task task;
  task.ordinal = 4;
  task.inputs.push_back({"model", {BlobId::Form::kModel, {}}});
  const double deviation = std::sqrt(2.0 / 3);  // of 0, 1, 2
  ASSERT_OK_AND_ASSIGN(const auto little, Adversaries::Create(scenario, false, data, shares));
  for (const int client : {2, 0}) {
    std::vector<float> delta = {7, 7, 7};
    task.client_id = shares->NameAt(client);
    ASSERT_OK(little->Change(task, train, delta));
    EXPECT_THAT(delta,
                ElementsAre(static_cast<float>(3 - 2 * 3 * deviation), 5, static_cast<float>(-1 - 2 * deviation)));
  }
  for (const auto& [client, times] : trained) EXPECT_EQ(times, 1) << client;
  scenario.attack = {.name = "ipm", .fraction = 1, .settings = {{"epsilon", 0.5}, {"colluders", int64_t{3}}}};
  ASSERT_OK_AND_ASSIGN(const auto product, Adversaries::Create(scenario, false, data, shares));
  std::vector<float> delta = {7, 7, 7};
  ASSERT_OK(product->Change(task, train, delta));
  EXPECT_THAT(delta, ElementsAre(-1.5, -2.5, 0.5));
  EXPECT_THAT(Adversaries::Create(scenario, true, data, shares).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("its attackers train for each other")));
}

TEST(Adversaries, AreTheirShareOfTheClients_AndTheirDataAloneIsPoisoned) {
  Scenario scenario;
  scenario.attack = {.name = "label_flip", .fraction = 0.3};
  std::vector<uint64_t> ends(10);
  std::vector<uint32_t> examples(10);
  for (uint32_t i = 0; i < 10; ++i) {
    ends[i] = i + 1;
    examples[i] = i;
  }
  const auto shares = std::make_shared<Shares>(Shares::OfNumbered(ends, examples));
  const auto data = std::make_shared<testing::MemoryDataset>(DigitRecords(10));
  ASSERT_OK_AND_ASSIGN(const auto adversaries, Adversaries::Create(scenario, true, data, shares));
  int attackers = 0;
  for (int64_t client = 0; client < 10; ++client) {
    const std::string name = shares->NameAt(client);
    ASSERT_OK_AND_ASSIGN(const BoundData bound, adversaries->Of(name));
    std::string example;
    ASSERT_OK(bound.dataset->Read(client, example));
    int64_t label = -1;
    ASSERT_OK(FindInt64Feature(example, "label", &label));
    EXPECT_EQ(label, adversaries->Attacks(name) ? 9 - client : client);
    EXPECT_FALSE(adversaries->Changes(name));
    attackers += adversaries->Attacks(name);
  }
  EXPECT_EQ(attackers, 3);
}

class AttackedRunsTest : public SimulatorTest {
 protected:
  Scenario Attacked(const std::string& attack, SettingValues settings = {}) {
    Scenario scenario = SmallScenario();
    scenario.run.rounds = 3;
    scenario.attack = {.name = attack, .fraction = 0.5, .settings = std::move(settings)};
    return scenario;
  }
};

TEST_F(AttackedRunsTest, EveryAttack_AnyNumberOfWorkersAndReplayed_SameBits) {
  std::map<std::string, std::string> digests;
  Scenario clean = Attacked("");
  clean.attack = {};
  digests[Simulate(clean, 2, "clean.sqlite").final_digest] = "nobody";
  for (const std::string& attack : SettingTableNames("attack")) {
    SCOPED_TRACE(attack);
    const Scenario scenario = Attacked(attack);
    const Trace one = Simulate(scenario, 1, attack + "-1.sqlite");
    ASSERT_OK(one.status);
    for (const int workers : {2, 3, 16}) {
      EXPECT_EQ(Simulate(scenario, workers, fmt::format("{}-{}.sqlite", attack, workers)).digests, one.digests);
    }
    ASSERT_OK_AND_ASSIGN(
        const ReplayResult again,
        Replay({.scenario = scenario, .db_path = Path(attack + "-1.sqlite"), .run = "latest", .workers = 2}));
    EXPECT_EQ(again.model_digest.Hex(), one.final_digest);
    const auto [other, is_new] = digests.emplace(one.final_digest, attack);
    EXPECT_TRUE(is_new) << "the same as under " << other->second;
  }
  EXPECT_EQ(digests.size(), 10u);
}

// Limits: nobody attacks, or an attack that changes nothing.
TEST_F(AttackedRunsTest, AttackWithoutEffect_HasTheDigestsOfNone) {
  Scenario scenario = Attacked("");
  scenario.attack = {};
  const Trace none = Simulate(scenario, 2, "none.sqlite");
  ASSERT_OK(none.status);
  scenario.attack = {.name = "sign_flip", .fraction = 0};
  EXPECT_EQ(Simulate(scenario, 2, "nobody.sqlite").digests, none.digests);
  scenario.attack = {.name = "scaling", .fraction = 1, .settings = {{"scale", 1.0}}};
  EXPECT_EQ(Simulate(scenario, 2, "once.sqlite").digests, none.digests);
  scenario.attack = {.name = "backdoor", .fraction = 1, .settings = {{"share", 0.0}}};
  EXPECT_EQ(Simulate(scenario, 2, "unshown.sqlite").digests, none.digests);
}

// What the history says of it is what a file of such examples comes to; and it is what the attackers are after.
TEST_F(AttackedRunsTest, Backdoor_HowOftenItWorksIsMeasured) {
  Scenario scenario = Attacked("backdoor", {{"target", int64_t{4}}, {"share", 1.0}});
  scenario.run.rounds = 6;
  std::vector<std::string> shown;
  for (std::string& example : DigitRecords(53, 9)) {
    ASSERT_OK_AND_ASSIGN(const bool shows, NewAttack("backdoor", scenario.attack.settings)->Show(example));
    if (shows) shown.push_back(example);
  }
  EXPECT_LT(shown.size(), 53u);
  scenario.data.tests = {"file=" + WriteRecords("shown.tfrecord", shown)};
  const Trace one = Simulate(scenario, 1, "one.sqlite");
  ASSERT_OK(one.status);
  EXPECT_EQ(Simulate(scenario, 3, "three.sqlite").central, one.central);
  for (const char* name : {"accuracy", "loss"}) {
    EXPECT_EQ(one.central.back().at(fmt::format("backdoor/{}", name)),
              one.central.back().at(fmt::format("file/{}", name)));
  }
  scenario.attack.fraction = 0;
  const Trace nobody = Simulate(scenario, 2, "nobody.sqlite");
  ASSERT_OK(nobody.status);
  EXPECT_GT(one.central.back().at("backdoor/accuracy"), nobody.central.back().at("backdoor/accuracy") + 0.5);
  scenario.attack = {};
  EXPECT_FALSE(Simulate(scenario, 2, "none.sqlite").central.back().contains("backdoor/accuracy"));
  scenario.attack = {.name = "sign_flip"};
  EXPECT_FALSE(Simulate(scenario, 2, "flip.sqlite").central.back().contains("sign_flip/accuracy"));
}

TEST_F(AttackedRunsTest, Deployed_IsRefusedByName) {
  EXPECT_THAT(Deploy(Attacked("sign_flip"), "deployed.sqlite").status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "attack.name is \"sign_flip\", and only simulations have attackers ('rivulet simulate'); "
                       "leave [attack] out of the scenario for real clients"));
}

TEST_F(AttackedRunsTest, UpdateOfAnotherForm_FailsItsTaskWithASentence) {
  Scenario scenario = Attacked("sign_flip");
  scenario.update.codec = "int8";
  scenario.attack.fraction = 1;
  scenario.server.max_attempts = 1;
  EXPECT_THAT(Simulate(scenario, 2, "int8.sqlite").status.ToString(),
              HasSubstr("attacks by its update, which must be one difference in float32"));
}

TEST_F(AttackedRunsTest, Scenario_KeepsAttackAndItsOptions) {
  const std::string text =
      "model.preset = \"logistic_regression\"\n[data]\npartition = { clients = 10 }\n[attack]\nname = \"alie\"\n";
  ASSERT_OK_AND_ASSIGN(const Scenario scenario, Scenario::Parse(text + "z = 1\n", "s.toml", "/"));
  EXPECT_EQ(scenario.attack.settings, (SettingValues{{"z", 1.0}, {"colluders", int64_t{5}}}));
  ASSERT_OK_AND_ASSIGN(const Scenario again, Scenario::Parse(scenario.ToToml(), "s.toml", "/"));
  EXPECT_EQ(again.ToToml(), scenario.ToToml());
  EXPECT_EQ(again.attack.settings, scenario.attack.settings);
  ASSERT_OK_AND_ASSIGN(Scenario other, Scenario::Parse(text, "s.toml", "/", {{"attack.z", "2"}}));
  EXPECT_THAT(CheckSamePlanKeys(scenario, other),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("attack.z")));
  const auto refused = [&](const std::string& more) { return Scenario::Parse(text + more, "s.toml", "/").status(); };
  EXPECT_THAT(refused("deviation = 1.0\n"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("attack.deviation in s.toml:6:13 belongs to")));
  EXPECT_THAT(refused("colluder = 1\n"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Did you mean 'attack.colluders'?")));
  EXPECT_THAT(
      Scenario::Parse(text, "s.toml", "/", {{"attack.name", "sign_flop"}}).status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "attack.name = \"sign_flop\" (--set): there is no attack 'sign_flop'. Did you mean 'sign_flip'?"));
  EXPECT_THAT(
      Scenario::Parse("model.preset = \"mlp\"\n[data]\npartition = { clients = 10 }\n[attack]\nfraction = 0.1\n",
                      "s.toml", "/")
          .status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has an effect only when attack.name is given")));
}

// What robust rules are for: four of twenty clients send their updates turned round and ten times as long.
TEST_F(AttackedRunsTest, AFifthFlipsItsSign_TheMeanCollapsesAndRobustRulesDoNot) {
  Scenario scenario = SmallScenario();
  scenario.run.rounds = 8;
  scenario.data.train = WriteRecords("many.tfrecord", DigitRecords(1000));
  scenario.data.test = WriteRecords("tests.tfrecord", DigitRecords(200, 9));
  scenario.data.partition.clients = scenario.server.clients_per_round = 20;
  scenario.evaluation.every = 0;
  const auto accuracy = [&](const std::string& algorithm, SettingValues settings, bool attacked) {
    scenario.algorithm = {.name = algorithm, .settings = std::move(settings)};
    scenario.attack = {};
    if (attacked) scenario.attack = {.name = "sign_flip", .fraction = 0.2, .settings = {{"scale", 10.0}}};
    scenario.evaluation.every = scenario.run.rounds;
    const Trace trace = Simulate(scenario, 2, fmt::format("{}-{}.sqlite", algorithm, attacked));
    EXPECT_OK(trace.status);
    return trace.central.empty() ? 0.0 : trace.central.back().at("test/accuracy");
  };
  const double clean = accuracy("fedavg", {}, false);
  EXPECT_GE(clean, 0.95);
  EXPECT_LE(accuracy("fedavg", {}, true), 0.3);
  EXPECT_GE(accuracy("krum", {{"byzantine", 0.2}}, true), clean - 0.01);
  EXPECT_GE(accuracy("median", {}, true), clean - 0.01);
  EXPECT_GE(accuracy("trimmed_mean", {{"trim", 0.2}}, true), clean - 0.01);
}

// The page names every attack, and each of its options with its default.
TEST(Attack, PageHasThemAll) {
  std::ifstream file(std::string(RIVULET_SOURCE_DIR) + "/docs/reference/attacks.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  for (const std::string& name : SettingTableNames("attack")) {
    ASSERT_OK_AND_ASSIGN(const SettingTable* const table, FindSettingTable("attack", name));
    EXPECT_THAT(page, HasSubstr(fmt::format("| `{}` |", name)));
    for (const Setting& setting : table->settings) {
      EXPECT_THAT(page, HasSubstr(fmt::format("`{} = {}`", setting.name, ToToml(*setting.default_value)))) << name;
    }
  }
}

}  // namespace
}  // namespace rivulet
