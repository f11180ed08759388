#include "federated/scenario/scenario.h"

#include <algorithm>
#include <clocale>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>

#include "engine/optimizers/settings/optimizer_settings.h"
#include "federated/scenario/stop_condition.h"
#include "federated/scenario/suggest_key.h"
#include "federated/settings/setting_tables.h"
#include "federated/settings/whole_ratios.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

// Attacks are of simulations, which this program does not link.
const SettingTableRegistration kSignFlip({"attack", "sign_flip", {}});

using Overrides = std::vector<std::pair<std::string, std::string>>;
using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

constexpr const char* kMinimal = R"([model]
preset = "mnist_cnn"
[data]
train = "mnist/train.tfrecord"
partition = { kind = "iid", clients = 100 }
)";

StatusOr<Scenario> Parse(const std::string& text, const Overrides& overrides = {}) {
  return Scenario::Parse(text, "s.toml", "/scenarios", overrides);
}

std::string ErrorOf(const std::string& text, const Overrides& overrides = {}) {
  const auto scenario = Parse(text, overrides);
  if (scenario.ok()) return "no error";
  EXPECT_THAT(scenario, StatusIs(absl::StatusCode::kInvalidArgument));
  return std::string(Message(scenario.status()));
}

// The minimal scenario with `line` in place of the line that begins with `key`.
std::string With(const std::string& more) { return kMinimal + more; }

TEST(Scenario, Minimal_HasTheDocumentedDefaults) {
  const auto scenario = Parse(kMinimal);
  ASSERT_OK(scenario);
  EXPECT_EQ(scenario->run.name, "s");
  EXPECT_EQ(scenario->run.rounds, 10);
  EXPECT_EQ(scenario->run.seed, 1u);
  EXPECT_EQ(scenario->data.train, "/scenarios/mnist/train.tfrecord");
  EXPECT_EQ(scenario->data.test, "");
  EXPECT_EQ(scenario->data.partition.clients, 100);
  EXPECT_EQ(scenario->server.clients_per_round, 10);
  EXPECT_EQ(scenario->server.deadline_seconds, 600);
  EXPECT_EQ(scenario->folder, "/scenarios");
}

TEST(Scenario, KeysOfMoreDotsThanAStackHolds_AreRefused) {
  std::string dots = "a";
  for (int i = 0; i < 20000; ++i) dots += ".a";
  EXPECT_THAT(ErrorOf(With(dots + " = 1\n")), HasSubstr("more than 64 deep"));
  EXPECT_THAT(ErrorOf(With("[" + dots + "]\n")), HasSubstr("more than 64 deep"));
  EXPECT_THAT(ErrorOf(With("[run]\nname = " + std::string(20000, '[') + "\n")), HasSubstr("more than 64 deep"));
  EXPECT_THAT(ErrorOf(kMinimal, {{"run.name", "{" + dots + " = 1}"}}), HasSubstr("run.name"));
  EXPECT_THAT(ErrorOf(kMinimal, {{dots, "1"}}), HasSubstr("unknown key"));
  // What stands behind a string that ends in quotes of its own is no string.
  EXPECT_THAT(ErrorOf(With("x = [\"\"\"a\"\"\"\", {" + dots + " = 1}]\n")), HasSubstr("more than 64 deep"));
  EXPECT_THAT(ErrorOf(With("x = ['''a''''', {" + dots + " = 1}]\n")), HasSubstr("more than 64 deep"));
  // Dots in strings, comments and numbers nest nothing.
  const std::string many(200, '.');
  EXPECT_TRUE(Parse(With("[run]\nname = \"" + many + "\" # " + many + "\n")).ok());
}

TEST(Scenario, NamesThatDoNotShow_AreRefused) {
  EXPECT_THAT(ErrorOf(With("[run]\nname = \"a\\u202Eb\"\n")), HasSubstr("U+202E"));
  EXPECT_THAT(ErrorOf(With("[run]\nname = \"a\\u0007\"\n")), HasSubstr("U+0007"));
}

TEST(Scenario, Suggestions_AreOfWhatIsMeant) {
  EXPECT_EQ(ErrorOf(kMinimal, {{"weather.epsilon", "1"}}), "unknown key 'weather.epsilon' in --set.");
  EXPECT_THAT(ErrorOf(kMinimal, {{"client.lr", "1"}}), HasSubstr("Did you mean 'client.optimizer.learning_rate'?"));
  EXPECT_THAT(ErrorOf(kMinimal, {{"server.epochs", "1"}}), HasSubstr("Did you mean 'client.epochs'?"));
  EXPECT_EQ(ErrorOf(With("[optimizer]\nlr = 1\n")),
            "unknown table 'optimizer' in s.toml:6:1. Did you mean 'client.optimizer'?");
}

TEST(Scenario, WordsOfOtherFrameworks_LeadToKeysThatThereAre) {
  const std::pair<const char*, const char*> kWords[] = {
      {"lr", "client.optimizer.learning_rate"},
      {"LR", "client.optimizer.learning_rate"},
      {"optimizer.lr", "client.optimizer.learning_rate"},
      {"training.lr", "client.optimizer.learning_rate"},
      {"client.optimizer.lr", "client.optimizer.learning_rate"},
      {"server.lr", "server.learning_rate"},
      {"learningrate", "client.optimizer.learning_rate"},
      {"epochs", "client.epochs"},
      {"local-epochs", "client.epochs"},
      {"epohcs", "client.epochs"},
      {"client.epoch", "client.epochs"},
      {"batch-size", "client.batch_size"},
      {"batchsize", "client.batch_size"},
      {"num-rounds", "run.rounds"},
      {"num_server_rounds", "run.rounds"},
      {"num_clients", "data.partition.clients"},
      {"fraction_fit", "server.clients_per_round"},
      {"momentum", "client.optimizer.momentum"},
      {"client.momentum", "client.optimizer.momentum"},
      {"weight_decay", "client.optimizer.weight_decay"},
      {"optimizer", "client.optimizer.kind"},
      {"seed", "run.seed"},
      {"partition.alpha", "data.partition.alpha"},
      {"privacy.noise_multiplier", "privacy.noise"},
      {"privacy.nois", "privacy.noise"},
      {"noise_multiplier", "privacy.noise"},
      {"model.num_classes", "model.classes"},
      {"weather.epsilon", ""},
      {"xyzzy", ""},
  };
  for (const auto& [word, key] : kWords) EXPECT_EQ(NearestScenarioKey(word), key) << word;
}

TEST(Scenario, EveryKey_IsMeantByItself) {
  for (const ScenarioKey& key : ScenarioKeys()) EXPECT_EQ(NearestScenarioKey(key.name), key.name);
}

TEST(Scenario, TheExampleOfTheDesign_Parses) {
  const auto scenario = Parse(R"([run]
name = "mnist-fedavg"
rounds = 50
seed = 1

[model]
preset = "mnist_cnn"

[data]
train = "mnist/train.tfrecord"
test = "mnist/test.tfrecord"
partition = { kind = "iid", clients = 100 }
input_feature = "image"
label_feature = "label"

[client]
epochs = 1
batch_size = 10
optimizer = { kind = "sgd", learning_rate = 0.215 }

[algorithm]
name = "fedavg"

[server]
clients_per_round = 10

[evaluation]
every = 1
)");
  ASSERT_OK(scenario);
  EXPECT_EQ(scenario->client.optimizer.learning_rate, 0.215);
  EXPECT_EQ(scenario->data.test, "/scenarios/mnist/test.tfrecord");
}

// ---- Every key -----------------------------------------------------------------------------------------------------

struct Effect {
  std::string key;
  std::string value;
  std::function<bool(const Scenario&)> seen;
  Overrides with = {};  // what the key needs beside it
};

std::vector<Effect> OwnEffects() {
  const Overrides graph = {{"model.preset", ""}, {"model.graph", "m.pb"}};
  const Overrides lora = {{"model.lora.targets", "[\"*kernel\"]"}};
  const Overrides layers = {{"model.layers", "[{ type = \"flatten\" }]"}, {"model.input.shape", "[784]"}};
  const auto schedule = [](const char* name) { return Overrides{{"client.schedule.kind", name}}; };
  const auto cwd = [](const char* name) { return (std::filesystem::current_path() / name).string(); };
  return {
      {"run.name", "n", [](auto& s) { return s.run.name == "n"; }},
      {"run.rounds", "7", [](auto& s) { return s.run.rounds == 7; }},
      {"run.stop", "accuracy >= 0.99", [](auto& s) { return s.run.stop == "accuracy >= 0.99"; }},
      {"run.patience", "5", [](auto& s) { return s.run.patience == 5; }},
      {"run.seed", "9", [](auto& s) { return s.run.seed == 9; }},
      {"run.keep_models", "all", [](auto& s) { return s.run.keep_models == "all"; }},
      {"run.durability", "end", [](auto& s) { return s.run.durability == "end"; }},
      {"run.kernels", "portable", [](auto& s) { return s.run.kernels == "portable"; }},
      {"run.cache_megabytes", "0", [](auto& s) { return s.run.cache_megabytes == 0; }},
      {"model.preset", "mlp", [](auto& s) { return s.model.preset == "mlp"; }},
      {"model.graph", "g.pb", [=](auto& s) { return s.model.graph == cwd("g.pb") && s.model.preset.empty(); }},
      {"model.onnx", "m.onnx", [=](auto& s) { return s.model.onnx == cwd("m.onnx") && s.model.preset.empty(); }},
      {"model.arrays", "i.safetensors",
       [=](auto& s) { return s.model.arrays == cwd("i.safetensors") && s.model.preset.empty(); }},
      {"model.base",
       "b.safetensors",
       [=](auto& s) { return s.model.base == cwd("b.safetensors"); },
       {{"model.arrays", "i.safetensors"}}},
      {"model.loss", "l", [](auto& s) { return s.model.loss == "l"; }, graph},
      {"model.metrics", "[\"a\", \"b\"]",
       [](auto& s) {
         return s.model.metrics == std::vector<std::string>{"a", "b"};
       },
       graph},
      {"model.image_input", "x", [](auto& s) { return s.model.image_input == "x"; }, graph},
      {"model.label_input", "y", [](auto& s) { return s.model.label_input == "y"; }, graph},
      {"model.layers",
       R"([{ type = "conv2d", filters = 8, size = [3, 5], rate = 0.5, bias = false }, { type = "flatten" }])",
       [](auto& s) {
         return s.model.preset.empty() &&
                s.model.layers == std::vector<LayerSpec>{{{"type", std::string("conv2d")},
                                                          {"filters", int64_t{8}},
                                                          {"size", std::vector<int64_t>{3, 5}},
                                                          {"rate", 0.5},
                                                          {"bias", false}},
                                                         {{"type", std::string("flatten")}}};
       },
       {{"model.input.shape", "[28, 28, 1]"}}},
      {"model.input.shape", "[32, 30, 3]",
       [](auto& s) {
         return s.model.input.shape == std::vector<int64_t>{32, 30, 3};
       }},
      {"model.input.kind", "tokens", [](auto& s) { return s.model.input.kind == "tokens"; }, layers},
      {"model.inputs",
       R"([{ name = "age", shape = [1], kind = "values" }])",
       [](auto& s) {
         return s.model.inputs == std::vector<LayerSpec>{{{"name", std::string("age")},
                                                          {"shape", std::vector<int64_t>{1}},
                                                          {"kind", std::string("values")}}};
       },
       {{"model.layers", "[{ type = \"flatten\" }]"}}},
      {"model.columns", "c.json", [=](auto& s) { return s.model.columns == cwd("c.json"); }, layers},
      {"model.classes", "62", [](auto& s) { return s.model.classes == 62; }},
      {"model.normalization",
       "group",
       [](auto& s) { return s.model.normalization == "group"; },
       {{"model.preset", "resnet20"}}},
      {"model.target", "numbers", [](auto& s) { return s.model.target == "numbers" && s.model.objective == "mse"; },
       layers},
      {"model.objective", "mse", [](auto& s) { return s.model.objective == "mse"; }, layers},
      {"model.personal", "[\"dense*\"]",
       [](auto& s) { return s.model.personal == std::vector<std::string>{"dense*"}; }},
      {"model.trainable",
       "[\"mask\"]",
       [](auto& s) { return s.model.trainable == std::vector<std::string>{"mask"}; },
       {{"model.onnx", "m.onnx"}, {"model.preset", ""}}},
      {"model.freeze", "[\"conv*\"]", [](auto& s) { return s.model.freeze == std::vector<std::string>{"conv*"}; }},
      {"model.lora.targets", "[\"conv*\"]",
       [](auto& s) { return s.model.lora.targets == std::vector<std::string>{"conv*"}; }},
      {"model.lora.rank", "4", [](auto& s) { return s.model.lora.rank == 4; }, lora},
      {"model.lora.alpha", "2.5", [](auto& s) { return s.model.lora.alpha == 2.5; }, lora},
      {"model.lora.dropout", "0.05", [](auto& s) { return s.model.lora.dropout == 0.05; }, lora},
      {"model.lora.freeze_a", "true", [](auto& s) { return s.model.lora.freeze_a; }, lora},
      {"model.lora.rslora", "true", [](auto& s) { return s.model.lora.rslora; }, lora},
      {"model.lora.modules_to_save", "[\"dense2/*\"]",
       [](auto& s) { return s.model.lora.modules_to_save == std::vector<std::string>{"dense2/*"}; }, lora},
      {"server.lora", "stack", [](auto& s) { return s.server.lora == "stack"; }},
      {"server.lora_rank", "4", [](auto& s) { return s.server.lora_rank == 4; }, {{"server.lora", "stack"}}},
      {"data.train", "t.tfrecord", [=](auto& s) { return s.data.train == cwd("t.tfrecord"); }},
      {"data.test", "u.tfrecord", [=](auto& s) { return s.data.test == cwd("u.tfrecord"); }},
      {"data.tests", "[\"a=t.tfrecord\"]",
       [=](auto& s) { return s.data.tests == std::vector<std::string>{"a=" + cwd("t.tfrecord")}; }},
      {"data.validation", "v.tfrecord", [=](auto& s) { return s.data.validation == cwd("v.tfrecord"); }},
      {"data.validation_fraction", "0.25", [](auto& s) { return s.data.validation_fraction == 0.25; }},
      {"model.weights", "w.safetensors", [=](auto& s) { return s.model.weights == cwd("w.safetensors"); }},
      {"data.input_feature", "i", [](auto& s) { return s.data.input_feature == "i"; }},
      {"data.label_feature", "l", [](auto& s) { return s.data.label_feature == "l"; }},
      {"data.partition.kind", "shards", [](auto& s) { return s.data.partition.kind == "shards"; }},
      {"data.partition.clients", "12", [](auto& s) { return s.data.partition.clients == 12; }},
      {"data.shift.kind", "noise", [](auto& s) { return s.data.shift.kind == "noise"; }},
      {"data.shift.groups", "4", [](auto& s) { return s.data.shift.groups == 4; }, {{"data.shift.kind", "rotation"}}},
      {"data.synth.kind", "digits", [](auto& s) { return s.data.synth.kind == "digits"; }},
      {"data.partition.tags", "[\"icu=client-0000*\"]",
       [](auto& s) { return s.data.partition.tags == std::vector<std::string>{"icu=client-0000*"}; }},
      {"client.epochs", "5", [](auto& s) { return s.client.epochs == 5; }},
      {"client.partial_work", "0.5", [](auto& s) { return s.client.partial_work == 0.5; }, {{"client.epochs", "2"}}},
      {"client.frozen", "[\"conv1/*=1..20\"]",
       [](auto& s) { return s.client.frozen == std::vector<std::string>{"conv1/*=1..20"}; }},
      {"client.batch_size", "50", [](auto& s) { return s.client.batch_size == 50; }},
      {"client.shuffle", "false", [](auto& s) { return !s.client.shuffle; }},
      {"client.input_graph", "i.pb", [=](auto& s) { return s.client.input_graph == cwd("i.pb"); }},
      {"client.optimizer.kind", "momentum", [](auto& s) { return s.client.optimizer.kind == "momentum"; }},
      {"client.optimizer.learning_rate", "2", [](auto& s) { return s.client.optimizer.learning_rate == 2.0; }},
      {"client.optimizer.clip_norm", "2", [](auto& s) { return s.client.optimizer.clip_norm == 2; }},
      {"client.optimizer.clip_value", "2", [](auto& s) { return s.client.optimizer.clip_value == 2; }},
      {"client.precision", "bfloat16", [](auto& s) { return s.client.precision == "bfloat16"; }},
      {"client.loss_scale.kind", "dynamic", [](auto& s) { return s.client.loss_scale.kind == "dynamic"; }},
      {"client.schedule.kind", "cosine", [](auto& s) { return s.client.schedule.kind == "cosine"; }},
      {"client.schedule.warmup", "2", [](auto& s) { return s.client.schedule.warmup == 2; }},
      {"client.schedule.unit", "step", [](auto& s) { return s.client.schedule.unit == "step"; }, schedule("step")},
      {"algorithm.name", "fedavg", [](auto& s) { return s.algorithm.name == "fedavg"; }},
      {"algorithm.graph", "r.pb", [=](auto& s) { return s.algorithm.graph == cwd("r.pb"); }},
      {"server.clients_per_round", "11", [](auto& s) { return s.server.clients_per_round == 11; }},
      {"server.min_clients", "13", [](auto& s) { return s.server.min_clients == 13; }},
      {"server.min_reports", "4", [](auto& s) { return s.server.min_reports == 4; }},
      {"server.over_selection", "1.3", [](auto& s) { return s.server.over_selection == 1.3; }},
      {"server.base", "\"latest\"", [](auto& s) { return s.server.base == "latest"; }},
      {"server.in_flight", "12", [](auto& s) { return s.server.in_flight == 12; }},
      {"server.max_staleness", "4", [](auto& s) { return s.server.max_staleness == 4; }},
      {"server.staleness_exponent", "1.5", [](auto& s) { return s.server.staleness_exponent == 1.5; }},
      {"server.deadline", "1.5", [](auto& s) { return s.server.deadline_seconds == 1.5; }},
      {"server.lease", "1.5", [](auto& s) { return s.server.lease_seconds == 1.5; }},
      {"server.presence", "1.5", [](auto& s) { return s.server.presence_seconds == 1.5; }},
      {"server.max_attempts", "2", [](auto& s) { return s.server.max_attempts == 2; }},
      {"server.learning_rate", "0.5", [](auto& s) { return s.server.learning_rate == 0.5; }},
      {"server.schedule.kind", "inverse", [](auto& s) { return s.server.schedule.kind == "inverse"; }},
      {"server.schedule.warmup", "2", [](auto& s) { return s.server.schedule.warmup == 2; }},
      {"server.download", "\"int8\"", [](auto& s) { return s.server.download == "int8"; }},
      {"server.average", "0.5", [](auto& s) { return s.server.average == 0.5; }},
      {"server.weights", "\"uniform\"", [](auto& s) { return s.server.weights == "uniform"; }},
      {"server.max_weight", "99", [](auto& s) { return s.server.max_weight == 99; }},
      {"server.value_bits", "4", [](auto& s) { return s.server.value_bits == 4; }},
      {"data.name", "ward", [](auto& s) { return s.data.name == "ward"; }},
      {"server.staging_megabytes", "1", [](auto& s) { return s.server.staging_megabytes == 1; }},
      {"server.partial", "\"disk\"", [](auto& s) { return s.server.partial == "disk"; }},
      {"server.checkpoint_reports", "true", [](auto& s) { return s.server.checkpoint_reports; }},
      {"server.serve_base",
       "false",
       [](auto& s) { return !s.server.serve_base; },
       {{"model.arrays", "i.safetensors"}, {"model.base", "b.safetensors"}}},
      {"server.sum_bits", "32", [](auto& s) { return s.server.sum_bits == 32; }},
      {"privacy.secure", "arithmetic", [](auto& s) { return s.secure.protocol == "arithmetic"; }},
      {"privacy.min_survivors",
       "7",
       [](auto& s) { return s.secure.min_survivors == 7; },
       {{"privacy.secure", "arithmetic"}}},
      {"privacy.min_cohort",
       "8",
       [](auto& s) { return s.secure.min_cohort == 8; },
       {{"privacy.secure", "secagg_plus"}}},
      {"privacy.max_colluding",
       "2",
       [](auto& s) { return s.secure.max_colluding == 2; },
       {{"privacy.secure", "secagg_plus"}}},
      {"privacy.drop_out",
       "0.3",
       [](auto& s) { return s.secure.drop_out == 0.3; },
       {{"privacy.secure", "secagg_plus"}}},
      {"privacy.least_sum", "9", [](auto& s) { return s.secure.least_sum == 9; }, {{"privacy.secure", "secagg_plus"}}},
      {"privacy.unit", "example", [](auto& s) { return s.privacy.unit == "example"; }},
      {"privacy.clip", "2", [](auto& s) { return s.privacy.clip == 2; }},
      {"privacy.noise", "0.5", [](auto& s) { return s.privacy.noise == 0.5; }, {{"privacy.clip", "1"}}},
      {"privacy.epsilon", "2", [](auto& s) { return s.privacy.epsilon == 2; }, {{"privacy.clip", "1"}}},
      {"privacy.delta", "1e-6", [](auto& s) { return s.privacy.delta == 1e-6; }, {{"privacy.clip", "1"}}},
      {"privacy.noise_source",
       "seeded",
       [](auto& s) { return s.privacy.noise_source == "seeded"; },
       {{"privacy.clip", "1"}, {"privacy.noise", "0.5"}}},
      {"server.fine_tune.data", "s.tfrecord", [=](auto& s) { return s.server.fine_tune.data == cwd("s.tfrecord"); }},
      {"server.fine_tune.epochs",
       "2",
       [](auto& s) { return s.server.fine_tune.epochs == 2; },
       {{"server.fine_tune.data", "s.tfrecord"}}},
      {"server.fine_tune.batch_size",
       "32",
       [](auto& s) { return s.server.fine_tune.batch_size == 32; },
       {{"server.fine_tune.data", "s.tfrecord"}}},
      {"server.fine_tune.learning_rate",
       "0.25",
       [](auto& s) { return s.server.fine_tune.learning_rate == 0.25; },
       {{"server.fine_tune.data", "s.tfrecord"}}},
      {"update.codec", "bf16", [](auto& s) { return s.update.codec == "bf16"; }},
      {"update.error_feedback", "false", [](auto& s) { return !s.update.error_feedback; }, {{"update.codec", "top_k"}}},
      {"evaluation.every", "20", [](auto& s) { return s.evaluation.every == 20; }},
      {"evaluation.batch_size", "7", [](auto& s) { return s.evaluation.batch_size == 7; }},
      {"evaluation.federated_every", "2", [](auto& s) { return s.evaluation.federated_every == 2; }},
      {"evaluation.federated_clients",
       "9",
       [](auto& s) { return s.evaluation.federated_clients == 9; },
       {{"evaluation.federated_every", "1"}}},
      {"evaluation.fine_tune_epochs",
       "3",
       [](auto& s) { return s.evaluation.fine_tune_epochs == 3; },
       {{"evaluation.federated_every", "1"}}},
      {"selection.name", "oort", [](auto& s) { return s.selection.name == "oort"; }},
      {"selection.tags", "[\"icu\"]", [](auto& s) { return s.selection.tags == std::vector<std::string>{"icu"}; }},
      {"selection.min_examples", "20", [](auto& s) { return s.selection.min_examples == 20; }},
      {"selection.trace", "t.csv", [=](auto& s) { return s.selection.trace == cwd("t.csv"); }},
      {"selection.period", "24", [](auto& s) { return s.selection.period == 24; }, {{"selection.trace", "t.csv"}}},
      {"attack.name", "sign_flip", [](auto& s) { return s.attack.name == "sign_flip"; }},
      {"attack.fraction", "0.25", [](auto& s) { return s.attack.fraction == 0.25; }, {{"attack.name", "sign_flip"}}},
      {"devices.compute", "half_normal(2e9)", [](auto& s) { return s.devices.compute == "half_normal(2e9)"; }},
      {"devices.download", "'1e6'", [](auto& s) { return s.devices.download == "1e6"; }},
      {"devices.upload", "uniform(1, 2)", [](auto& s) { return s.devices.upload == "uniform(1, 2)"; }},
      {"devices.delay", "exponential(3)", [](auto& s) { return s.devices.delay == "exponential(3)"; }},
      {"devices.failure", "lognormal(3, 1)", [](auto& s) { return s.devices.failure == "lognormal(3, 1)"; }},
      {"devices.availability", "'0.5'", [](auto& s) { return s.devices.availability == "0.5"; }},
      {"devices.period",
       "3600",
       [](auto& s) { return s.devices.period_seconds == 3600; },
       {{"devices.availability", "'0.5'"}}},
      {"devices.server", "'2.5'", [](auto& s) { return s.devices.server == "2.5"; }},
      {"devices.trace", "d.csv", [=](auto& s) { return s.devices.trace == cwd("d.csv"); }},
  };
}

// Options of registered pieces: of each the example of the first piece that has it.
std::vector<Effect> OptionEffects() {
  struct Kind {
    std::string name, section, selector;
  };
  const Kind kinds[] = {{"partitioner", "data.partition", "data.partition.kind"},
                        {"law of sizes", "data.partition", "data.partition.sizes"},
                        {"feature shift", "data.shift", "data.shift.kind"},
                        {"objective", "model", "model.objective"},
                        {"optimizer", "client.optimizer", "client.optimizer.kind"},
                        {"schedule", "client.schedule", "client.schedule.kind"},
                        {"loss scale", "client.loss_scale", "client.loss_scale.kind"},
                        {"codec", "update", "update.codec"},
                        {"generator", "data.synth", "data.synth.kind"},
                        {"server schedule", "server.schedule", "server.schedule.kind"}};
  std::vector<Effect> effects;
  for (const Kind& kind : kinds) {
    for (const SettingTable* table : SettingTablesOf(kind.name)) {
      for (const Setting& setting : table->settings) {
        const std::string key = fmt::format("{}.{}", kind.section, setting.name);
        if (std::ranges::find(effects, key, &Effect::key) != effects.end()) continue;
        const bool is_file = table->IsFile(setting.name);
        const std::string value = is_file ? "/m.csv" : setting.example;
        // Ratios are whole numbers in a scenario: those of "[0.5, 1.7]" are "[5, 17]".
        const bool is_ratio = table->HasTrait(RatioTrait(setting.name));
        const std::string line = is_ratio ? fmt::format("\n{} = [5, 17]\n", setting.name)
                                          : fmt::format("\n{} = {}\n", setting.name, is_file ? "\"/m.csv\"" : value);
        effects.push_back({key,
                           value,
                           [line](const Scenario& s) { return s.ToToml().find(line) != std::string::npos; },
                           {{kind.selector, table->name}}});
      }
    }
  }
  return effects;
}

std::vector<Effect> Effects() {
  std::vector<Effect> all = OwnEffects();
  std::ranges::move(OptionEffects(), std::back_inserter(all));
  return all;
}

TEST(ScenarioKeys, EachReachesItsField) {
  std::vector<std::string> seen;
  const std::string before = Parse(kMinimal)->ToToml();
  for (const Effect& effect : Effects()) {
    Overrides overrides = effect.with;
    overrides.emplace_back(effect.key, effect.value);
    const auto scenario = Parse(kMinimal, overrides);
    ASSERT_OK(scenario) << effect.key;
    EXPECT_TRUE(effect.seen(*scenario)) << effect.key;
    if (effect.key != "algorithm.name") {  // it has one value yet
      EXPECT_NE(scenario->ToToml(), before) << effect.key;
    }
    seen.push_back(effect.key);
  }
  std::vector<std::string> known;
  for (const ScenarioKey& key : ScenarioKeys()) known.push_back(key.name);
  EXPECT_THAT(seen, ::testing::UnorderedElementsAreArray(known)) << "a key without a test, or a test without a key";
}

TEST(ScenarioKeys, LawThatIsANumber_IsAlwaysThat) {
  ASSERT_OK_AND_ASSIGN(const Scenario scenario,
                       Parse(With("[devices]\nupload = 1e6\ndelay = 7\n"), {{"devices.failure", "0.25"}}));
  EXPECT_EQ(scenario.devices.upload, "1000000");
  EXPECT_EQ(scenario.devices.delay, "7");
  EXPECT_EQ(scenario.devices.failure, "0.25");
  ASSERT_OK_AND_ASSIGN(const Scenario again, Scenario::ParseStored(scenario.ToToml(), "history"));
  EXPECT_EQ(again.ToToml(), scenario.ToToml());
  EXPECT_THAT(Parse(kMinimal, {{"devices.delay", "true"}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("devices.delay in --set must be a string")));
}

TEST(ScenarioKeys, ToTomlReadsBackTheSame) {
  for (const Effect& effect : Effects()) {
    Overrides overrides = effect.with;
    overrides.emplace_back(effect.key, effect.value);
    const auto scenario = Parse(kMinimal, overrides);
    ASSERT_OK(scenario);
    const std::string text = scenario->ToToml();
    const auto again = Scenario::Parse(text, "history", "/elsewhere");
    ASSERT_OK(again) << effect.key << "\n" << text;
    EXPECT_EQ(again->ToToml(), text) << effect.key;
    EXPECT_TRUE(effect.seen(*again)) << effect.key;
  }
}

TEST(ScenarioKeys, EachIsDocumentedWithAnExampleThatParses) {
  for (const ScenarioKey& key : ScenarioKeys()) {
    EXPECT_GT(key.doc.size(), 15u) << key.name;
    EXPECT_FALSE(key.default_value.empty()) << key.name;
    // Also a wrong type is refused by every key, by name.
    const auto wrong = Parse(kMinimal, {{key.name, "2024-01-01"}});
    EXPECT_THAT(wrong, StatusIs(absl::StatusCode::kInvalidArgument,
                                ::testing::AllOf(HasSubstr(key.name + " in --set must be "), HasSubstr("not a date"))));
    const auto example = Parse(kMinimal, {{key.name, key.example}});
    if (!example.ok()) {
      EXPECT_THAT(std::string(Message(example.status())), HasSubstr("has an effect only when " + key.applies_when));
      EXPECT_FALSE(key.applies_when.empty()) << key.name << ": " << example.status();
    }
  }
}

TEST(OptimizerKeys, NotGiven_HaveWhatIsUsualForTheKind) {
  for (const OptimizerTable* table : OptimizerTables()) {
    const auto scenario = Parse(kMinimal, {{"client.optimizer.kind", table->name}});
    ASSERT_OK(scenario);
    const std::string text = scenario->ToToml();
    for (const Setting& setting : table->settings) {
      if (setting.name == "learning_rate") continue;  // a scenario's own
      EXPECT_THAT(text, HasSubstr(fmt::format("\n{} = {}\n", setting.name, ToToml(*setting.default_value))))
          << table->name;
      // The same names in other sections would hide what is missing here.
      EXPECT_NE(std::ranges::find(ScenarioKeys(), "client.optimizer." + setting.name, &ScenarioKey::name),
                ScenarioKeys().end());
    }
  }
}

TEST(ScenarioKeys, TheirClassIsWhatTheyDecide) {
  std::vector<std::string> operation, place;
  for (const ScenarioKey& key : ScenarioKeys()) {
    if (key.key_class == KeyClass::kOperation) operation.push_back(key.name);
    if (key.key_class == KeyClass::kPlace) place.push_back(key.name);
  }
  EXPECT_THAT(operation,
              ::testing::ElementsAre(
                  "run.rounds", "run.stop", "run.patience", "run.keep_models", "run.durability", "run.cache_megabytes",
                  "server.min_clients", "server.min_reports", "server.deadline", "server.lease", "server.presence",
                  "server.max_attempts", "server.staging_megabytes", "server.partial", "server.checkpoint_reports",
                  "server.serve_base", "privacy.epsilon", "privacy.delta", "evaluation.every", "evaluation.batch_size",
                  "evaluation.federated_every", "evaluation.federated_clients"));
  EXPECT_THAT(place, ::testing::ElementsAre("model.graph", "model.onnx", "model.arrays", "model.base", "model.weights",
                                            "model.columns", "data.train", "data.test", "data.tests", "data.validation",
                                            "data.partition.distribution", "client.input_graph", "algorithm.graph",
                                            "server.fine_tune.data", "selection.trace", "devices.trace"));
}

TEST(StopCondition, IsAMetricAComparisonAndANumber) {
  const auto holds = [](const std::string& text, double value) { return StopCondition::Parse(text)->Holds(value); };
  EXPECT_TRUE(holds("accuracy >= 0.99", 0.99));
  EXPECT_FALSE(holds("accuracy > 0.99", 0.99));
  EXPECT_TRUE(holds("loss<=1e-2", 0.01));
  EXPECT_FALSE(holds(" loss < 1e-2 ", 0.01));
  EXPECT_FALSE(holds("loss < 1e-2", std::nan("")));
  EXPECT_EQ(StopCondition::Parse("rotated/accuracy > 0.5")->metric, "rotated/accuracy");
  for (const std::string wrong : {"accuracy", "accuracy = 0.99", "accuracy >= ", ">= 0.99", "accuracy >= much",
                                  "a b > 1", "accuracy >= 0.9 and loss < 1", "accuracy >= inf", "0.5 < accuracy"}) {
    EXPECT_EQ(
        ErrorOf(kMinimal, {{"run.stop", "'" + wrong + "'"}}),
        fmt::format("run.stop is '{}'; write a metric, one of <, <=, > and >=, and a number, such as \"accuracy >= "
                    "0.99\"",
                    wrong));
  }
  EXPECT_THAT(ErrorOf(kMinimal, {{"run.stop", "loss < 1"}, {"evaluation.every", "0"}}),
              HasSubstr("only when evaluation.every is not 0"));
}

TEST(ScenarioReference, IsWhatTheDocumentHolds) {
  const std::string path = std::string(RIVULET_SOURCE_DIR) + "/docs/reference/scenario.md";
  std::ifstream file(path);
  ASSERT_TRUE(file) << "docs/reference/scenario.md is missing";
  std::stringstream text;
  text << file.rdbuf();
  std::string page = text.str();
  const std::string begin = "<!-- keys: begin -->\n", end = "<!-- keys: end -->\n";
  const size_t from = page.find(begin), to = page.find(end);
  ASSERT_NE(from, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  const size_t start = from + begin.size();
  if (std::getenv("RIVULET_UPDATE_DOCS") != nullptr) {
    page.replace(start, to - start, ScenarioReference());
    std::ofstream(path) << page;
    return;
  }
  EXPECT_EQ(page.substr(start, to - start), ScenarioReference())
      << "run this test with RIVULET_UPDATE_DOCS=1 to bring docs/reference/scenario.md up to date";
}

TEST(ScenarioFiles, AllOfSimulationsParse) {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(RIVULET_SOURCE_DIR) + "/simulations/scenarios")) {
    if (entry.path().extension() != ".toml") continue;
    const auto scenario = Scenario::Load(entry.path().string());
    EXPECT_OK(scenario);
    if (scenario.ok()) {
      EXPECT_EQ(scenario->run.name, entry.path().stem().string());
      ++files;
    }
  }
  EXPECT_GE(files, 6);
}

// ---- Overrides and paths -------------------------------------------------------------------------------------------

TEST(Override, ReachesIntoAnInlineTable) {
  const auto scenario = Parse(With("[client]\noptimizer = { kind = \"sgd\", learning_rate = 0.5 }\n"),
                              {{"client.optimizer.learning_rate", "0.1"}, {"data.partition.clients", "33"}});
  ASSERT_OK(scenario);
  EXPECT_EQ(scenario->client.optimizer.learning_rate, 0.1);
  EXPECT_EQ(scenario->data.partition.clients, 33);
  EXPECT_EQ(scenario->data.partition.kind, "iid");
}

TEST(Override, TheLastOneCounts) {
  EXPECT_EQ(Parse(kMinimal, {{"run.rounds", "5"}, {"run.rounds", "6"}})->run.rounds, 6);
}

TEST(Override, ATableSetsTheKeysItHolds) {
  const auto scenario = Parse(kMinimal, {{"data.partition", "{ kind = \"dirichlet\", alpha = 1 }"}});
  ASSERT_OK(scenario);
  EXPECT_EQ(scenario->data.partition.kind, "dirichlet");
  EXPECT_EQ(scenario->data.partition.settings.at("alpha"), SettingValue(1.0));
  EXPECT_EQ(scenario->data.partition.clients, 100);
}

TEST(Override, ATextThatIsNotOneTomlValueIsAString) {
  const auto feature = [](const std::string& value) {
    const auto scenario = Parse(kMinimal, {{"data.label_feature", value}});
    EXPECT_OK(scenario);
    return scenario.ok() ? scenario->data.label_feature : "";
  };
  EXPECT_EQ(feature("\"quoted\""), "quoted");
  const std::string brackets(20000, '['), dots(200, '.');
  const std::vector<std::string> texts = {"a\nrounds = 3", "1\nrounds = 3", "it's", "[1, 2", brackets, dots};
  for (const std::string& text : texts) EXPECT_EQ(feature(text), text);
}

TEST(Override, RelativePathsStartAtTheWorkingDirectory) {
  const auto scenario = Parse(kMinimal, {{"data.test", "../x.tfrecord"}});
  EXPECT_EQ(scenario->data.test, (std::filesystem::current_path() / "../x.tfrecord").lexically_normal().string());
  EXPECT_EQ(Parse(kMinimal, {{"data.test", "/abs/x.tfrecord"}})->data.test, "/abs/x.tfrecord");
}

TEST(Override, OfAKindDropsTheFilesOptionsOfAnotherKind) {
  const std::string text = R"(model = { preset = "mlp" }
[data]
train = "t"
partition = { kind = "shards", clients = 20, shards_per_client = 5 }
)";
  const auto scenario = Parse(text, {{"data.partition.kind", "iid"}});
  ASSERT_OK(scenario);
  EXPECT_FALSE(scenario->data.partition.settings.contains("shards_per_client"));
  EXPECT_EQ(Parse(scenario->ToToml())->ToToml(), scenario->ToToml());
}

TEST(Override, OfTheModelReplacesTheFilesModel) {
  const auto graph = Parse(kMinimal, {{"model.graph", "/m.pb"}});
  ASSERT_OK(graph);
  EXPECT_EQ(graph->model.preset, "");
  const auto preset =
      Parse("model = { graph = \"m.pb\", loss = \"l\" }\ndata = { train = \"t\", partition.clients = 10 }\n",
            {{"model.preset", "mlp"}});
  ASSERT_OK(preset);
  EXPECT_EQ(preset->model.graph, "");
  EXPECT_EQ(preset->model.loss, "loss");
}

TEST(Load, PathsStartAtTheFilesFolder) {
  const testing::TempFolder folder;
  const auto scenario = Scenario::Load(folder.Write("quick.toml", kMinimal));
  ASSERT_OK(scenario);
  EXPECT_EQ(scenario->run.name, "quick");
  EXPECT_EQ(scenario->data.train, folder.File("mnist/train.tfrecord"));
}

TEST(Load, AMissingFileIsNotFound) {
  const auto scenario = Scenario::Load("/nowhere/s.toml");
  EXPECT_THAT(scenario, StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/s.toml")));
}

TEST(Synth, NamesItsFilesAfterWhatTheyHold) {
  const std::string text = R"([model]
preset = "mlp"
[data]
partition = { kind = "by_key", key = "writer" }
synth = { kind = "digits", writers = 30 }
)";
  const auto scenario = Parse(text);
  ASSERT_OK(scenario);
  EXPECT_EQ(scenario->data.train, "/scenarios/data/digits-30-20-60-1/train.tfrecord");
  EXPECT_EQ(scenario->data.test, "/scenarios/data/digits-30-20-60-1/test.tfrecord");
  EXPECT_NE(Parse(text, {{"data.synth.seed", "2"}})->data.train, scenario->data.train);
  EXPECT_EQ(Parse(text, {{"data.train", "/d/a.tfrecord"}})->data.test, "");  // own data
  EXPECT_EQ(Parse(text, {{"data.test", ""}})->data.test, "");
}

TEST(ToToml, DoesNotDependOnTheLocale) {
  const std::string text = Parse(kMinimal)->ToToml();
  if (std::setlocale(LC_ALL, "de_DE.UTF-8") == nullptr) std::setlocale(LC_ALL, "C.UTF-8");
  EXPECT_EQ(Parse(kMinimal)->ToToml(), text);
  std::setlocale(LC_ALL, "C");
  EXPECT_THAT(text, HasSubstr("learning_rate = 0.1\n"));
  EXPECT_THAT(text, HasSubstr("deadline = 600.0\n"));
}

TEST(ToToml, StringsOfAnyContentReadBack) {
  const std::string odd = "a\"b\\c\n\t\x01\x7f ü";
  const auto scenario = Parse(kMinimal, {{"data.label_feature", odd}});
  ASSERT_OK(scenario);
  EXPECT_EQ(scenario->data.label_feature, odd);
  const auto again = Parse(scenario->ToToml());
  ASSERT_OK(again);
  EXPECT_EQ(again->data.label_feature, odd);
}

// ---- Refusals ------------------------------------------------------------------------------------------------------

TEST(Refuse, Syntax_SaysFileLineAndColumn) {
  EXPECT_THAT(ErrorOf("[run]\nrounds = = 5\n"), ::testing::StartsWith("s.toml:2:10: "));
  EXPECT_THAT(ErrorOf("[run]\nrounds = 5\nrounds = 6\n"), ::testing::StartsWith("s.toml:3:"));
  EXPECT_THAT(ErrorOf("[run\n"), ::testing::StartsWith("s.toml:1:"));
  EXPECT_THAT(ErrorOf("[run]\nname = \"\xff\"\n"), ::testing::StartsWith("s.toml:"));
  EXPECT_THAT(ErrorOf("[run]\nrounds = 99999999999999999999\n"), ::testing::StartsWith("s.toml:2:"));
}

TEST(Refuse, DeepNesting_IsAnErrorAndNoCrash) {
  EXPECT_NE(ErrorOf("a = " + std::string(100000, '[')), "no error");
  EXPECT_NE(ErrorOf(kMinimal, {{"run.rounds", std::string(100000, '[')}}), "no error");
}

TEST(Refuse, UnknownKey_SuggestsTheNearest) {
  EXPECT_EQ(ErrorOf(With("[run]\nround = 3\n")), "unknown key 'run.round' in s.toml:7:9. Did you mean 'run.rounds'?");
  EXPECT_EQ(ErrorOf(With("[client]\nclients_per_round = 3\n")),
            "unknown key 'client.clients_per_round' in s.toml:7:21. Did you mean 'server.clients_per_round'?");
  EXPECT_EQ(ErrorOf(With("[sever]\nx = 3\n")), "unknown table 'sever' in s.toml:6:1. Did you mean 'server'?");
  EXPECT_EQ(ErrorOf("rounds = 3\n"), "unknown key 'rounds' in s.toml:1:10. Did you mean 'run.rounds'?");
  EXPECT_EQ(ErrorOf("zzzzzzzzzzzzzzzz = 3\n"), "unknown key 'zzzzzzzzzzzzzzzz' in s.toml:1:20.");
  EXPECT_EQ(ErrorOf("\"run.rounds\" = 3\n"), "unknown key '\"run.rounds\"' in s.toml:1:16. Did you mean 'run.rounds'?");
  EXPECT_EQ(ErrorOf(kMinimal, {{"client.optimiser.learning_rate", "3"}}),
            "unknown key 'client.optimiser.learning_rate' in --set. Did you mean 'client.optimizer.learning_rate'?");
  EXPECT_EQ(ErrorOf(kMinimal, {{"", "3"}}), "unknown key '' in --set.");
}

TEST(Refuse, WrongType_NamesKeyPlaceWantedAndGiven) {
  EXPECT_EQ(ErrorOf("[run]\n\nrounds = \"x\"\n"), "run.rounds in s.toml:3:10 must be an integer, not the string \"x\"");
  EXPECT_EQ(ErrorOf("[run]\nrounds = 1.5\n"), "run.rounds in s.toml:2:10 must be an integer, not the float 1.5");
  EXPECT_EQ(ErrorOf("[run]\nrounds = true\n"), "run.rounds in s.toml:2:10 must be an integer, not the boolean true");
  EXPECT_EQ(ErrorOf("[run]\nrounds = { a = 1 }\n"), "run.rounds in s.toml:2:10 must be an integer, not a table");
  EXPECT_EQ(ErrorOf("[run]\nname = 5\n"), "run.name in s.toml:2:8 must be a string, not the integer 5");
  EXPECT_EQ(ErrorOf("[client]\nshuffle = 1\n"),
            "client.shuffle in s.toml:2:11 must be true or false, not the integer 1");
  EXPECT_EQ(ErrorOf("[client]\noptimizer = { learning_rate = \"fast\" }\n"),
            "client.optimizer.learning_rate in s.toml:2:31 must be a number, not the string \"fast\"");
  EXPECT_EQ(ErrorOf("[model]\nmetrics = [1]\n"),
            "model.metrics in s.toml:2:11 must be an array of strings, not an array of integers");
  EXPECT_EQ(ErrorOf("run = 5\n"), "run in s.toml:1:7 must be a table, not the integer 5");
  EXPECT_EQ(ErrorOf("[[data]]\ntrain = \"t\"\n"), "data in s.toml:1:1 must be a table, not an array of tables");
  EXPECT_EQ(ErrorOf(kMinimal, {{"run.rounds", "many"}}),
            "run.rounds in --set must be an integer, not the string \"many\"");
  EXPECT_EQ(ErrorOf(kMinimal, {{"run.name", "5"}}),
            "run.name in --set must be a string, not the integer 5; quote it to make it a string");
}

TEST(Refuse, OutOfRange_SaysTheRange) {
  EXPECT_EQ(ErrorOf("[run]\nrounds = 0\n"),
            "run.rounds in s.toml:2:10 must be at least 1 and at most 1000000000, not 0");
  EXPECT_EQ(ErrorOf("[run]\nseed = -1\n"), "run.seed in s.toml:2:8 must be at least 0, not -1");
  EXPECT_EQ(ErrorOf("[client]\noptimizer.learning_rate = nan\n"),
            "client.optimizer.learning_rate in s.toml:2:27 must be a finite number, not nan");
  EXPECT_EQ(ErrorOf("[client]\noptimizer.learning_rate = inf\n"),
            "client.optimizer.learning_rate in s.toml:2:27 must be a finite number, not inf");
  EXPECT_EQ(ErrorOf("[client]\noptimizer.learning_rate = -0.1\n"),
            "client.optimizer.learning_rate in s.toml:2:27 must be at least 0 and at most 1000000, not -0.1");
  EXPECT_EQ(ErrorOf("[client]\noptimizer = { kind = \"momentum\", momentum = 1 }\n"),
            "client.optimizer.momentum in s.toml:2:45 must be at least 0 and below 1, not 1");
  EXPECT_EQ(ErrorOf("[data]\npartition.alpha = 0\n"), "data.partition.alpha in s.toml:2:19 must be above 0, not 0");
  EXPECT_EQ(ErrorOf("[data]\npartition.alpha = inf\n"),
            "data.partition.alpha in s.toml:2:19 must be a finite number, not inf");
  EXPECT_EQ(ErrorOf("[server]\nmax_weight = 536870912\n"),
            "server.max_weight in s.toml:2:14 must be at least 1 and at most 536870911, not 536870912");
  EXPECT_EQ(ErrorOf("[data]\npartition.kind = \"idd\"\n"),
            "data.partition.kind in s.toml:2:18 must be one of \"by_key\", \"continuous\", \"dirichlet\", "
            "\"distribution\", \"iid\", \"label_dirichlet\", \"pathological\", \"shards\", not \"idd\"."
            " Did you mean 'iid'?");
  EXPECT_THAT(ErrorOf("[algorithm]\nname = \"fedavgs\"\n"),
              ::testing::AllOf(HasSubstr("algorithm.name in s.toml:2:8 must be one of \""),
                               HasSubstr("not \"fedavgs\". Did you mean 'fedavg'?")));
  EXPECT_EQ(ErrorOf("[run]\nname = \"a\\u0000b\"\n"), "run.name in s.toml:2:8 must not contain a zero byte");
}

TEST(Refuse, WhatNeedsAGraph_WithArrays) {
  const std::string arrays = "model = { arrays = \"i.safetensors\" }\ndata = { partition = { clients = 10 } }\n";
  const auto scenario = Parse(arrays);
  ASSERT_OK(scenario);
  EXPECT_EQ(scenario->model.arrays, "/scenarios/i.safetensors");
  const auto again = Scenario::ParseStored(scenario->ToToml(), "stored");
  ASSERT_OK(again);
  EXPECT_EQ(again->ToToml(), scenario->ToToml());
  EXPECT_EQ(ErrorOf(arrays + "evaluation = { every = 2 }\n"),
            "evaluation.every in s.toml:3:24 has an effect only when the model has a graph, that is without "
            "model.arrays, whose models clients measure (evaluation.federated_every); remove it, or change "
            "model.arrays");
  EXPECT_EQ(ErrorOf(arrays + "client = { optimizer = { learning_rate = 0.5 } }\n"),
            "client.optimizer.learning_rate in s.toml:3:42 has an effect only when model.arrays is not given; remove "
            "it, or change model.arrays");
  EXPECT_OK(Parse(arrays + "client = { epochs = 3, batch_size = 7 }\nevaluation = { federated_every = 2 }\n"));
  EXPECT_EQ(ErrorOf(arrays, {{"model.base", "b.safetensors"}, {"model.lora.targets", "[\"*kernel\"]"}}),
            "model.lora.targets in --set has an effect only when model.arrays is not given; remove it, or change "
            "model.arrays");
  EXPECT_EQ(ErrorOf(kMinimal, {{"model.base", "b.safetensors"}, {"model.lora.targets", "[\"*kernel\"]"}}), "no error");
  EXPECT_EQ(ErrorOf(arrays, {{"model.input.shape", "[3]"}}),
            "model.input.shape in --set has an effect only when none of model.graph, model.arrays and model.inputs is "
            "given; remove it, or change model.graph");
}

TEST(Refuse, Contradictions_NameBothKeys) {
  EXPECT_EQ(
      ErrorOf(With("[server]\nclients_per_round = 101\n")),
      "server.clients_per_round = 101 (s.toml:7:21) is more than data.partition.clients = 100 (s.toml:5:39); select "
      "fewer, or make more clients");
  EXPECT_EQ(
      ErrorOf(With("[server]\nclients_per_round = 10\n"), {{"data.partition.clients", "5"}}),
      "server.clients_per_round = 10 (s.toml:7:21) is more than data.partition.clients = 5 (--set); select fewer, "
      "or make more clients");
  EXPECT_EQ(ErrorOf(kMinimal, {{"data.partition.clients", "0"}}),
            "data.partition.clients = 0 (--set) leaves no clients to train; data.partition.kind = \"iid\" "
            "(s.toml:5:22) needs at least 1");
  EXPECT_EQ(
      ErrorOf("model = { preset = \"mlp\", graph = \"m.pb\" }\n"),
      "model.preset = \"mlp\" (s.toml:1:20) and model.graph = \"/scenarios/m.pb\" (s.toml:1:35) exclude each other; "
      "keep one");
  EXPECT_EQ(ErrorOf("[run]\nrounds = 3\n"),
            "s.toml names no model; give model.preset (such as \"mnist_cnn\"), model.graph (a GraphDef file), "
            "model.onnx (an ONNX model), model.arrays (weights alone, which clients train in their own way) or "
            "[[model.layers]]");
  EXPECT_EQ(ErrorOf("[model]\npreset = \"mlp\"\n[[model.layers]]\ntype = \"flatten\"\n"),
            "model.preset = \"mlp\" (s.toml:2:10) and model.layers (s.toml:3:1) exclude each other; keep one");
  EXPECT_THAT(ErrorOf("[[model.layers]]\ntype = { a = 1 }\n"),
              HasSubstr("model.layers in s.toml:1:1 must be an array of tables"));
  EXPECT_THAT(ErrorOf(kMinimal, {{"model.input.shape", "[28, 0]"}}),
              HasSubstr("model.input.shape in --set must be at least 1 and at most 1000000000, not 0"));
  EXPECT_THAT(ErrorOf(kMinimal, {{"server.min_clients", "101"}}), HasSubstr("so the run would never start"));
  EXPECT_THAT(ErrorOf(kMinimal, {{"server.min_clients", "9"}}),
              HasSubstr("is less than server.clients_per_round = 10"));
  EXPECT_THAT(ErrorOf(kMinimal, {{"server.in_flight", "101"}}), HasSubstr("is more than data.partition.clients = 100"));
  EXPECT_THAT(ErrorOf(kMinimal, {{"server.min_reports", "11"}}),
              HasSubstr("is more than server.clients_per_round = 10"));
  EXPECT_THAT(ErrorOf(kMinimal, {{"run.name", "latest"}}), HasSubstr("cannot name a run"));
  EXPECT_THAT(ErrorOf(kMinimal, {{"server.over_selection", "10.1"}}), HasSubstr("asks 101 clients, and there are 100"));
}

TEST(Scenario, ClientsPerRoundNotGiven_AreNoMoreThanThereAre) {
  const auto few = Parse(kMinimal, {{"data.partition.clients", "3"}});
  ASSERT_OK(few);
  EXPECT_EQ(few->server.clients_per_round, 3);
  const auto many = Parse(kMinimal, {{"data.partition.clients", "30"}});
  ASSERT_OK(many);
  EXPECT_EQ(many->server.clients_per_round, 10);
}

TEST(Scenario, AFormerNameOfAKey_IsRead) {
  const auto former = Parse(kMinimal, {{"data.image_feature", "pixels"}});
  ASSERT_OK(former);
  EXPECT_EQ(former->data.input_feature, "pixels");
  EXPECT_THAT(former->ToToml(), HasSubstr("\ninput_feature = \"pixels\"\n"));
  EXPECT_TRUE(former->given.contains("data.input_feature"));
  EXPECT_THAT(ErrorOf("[data]\nimage_feature = \"a\"\ninput_feature = \"b\"\n"),
              HasSubstr("are one key under two names; keep data.input_feature"));
}

TEST(Scenario, ForItsData_NeedsNoModelAndNoCohort) {
  const std::string text = "[data]\ntrain = \"t\"\npartition = { clients = 3 }\n[server]\nclients_per_round = 5\n";
  const auto data = Scenario::Parse(text, "s.toml", "/", {}, ScenarioPart::kData);
  ASSERT_OK(data);
  EXPECT_EQ(data->data.partition.clients, 3);
  EXPECT_THAT(ErrorOf(text), HasSubstr("s.toml names no model"));
  EXPECT_FALSE(Scenario::Parse("[data]\ntrain = \"t\"\n", "s.toml", "/", {}, ScenarioPart::kData).ok());
}

TEST(ScenarioTogether, OverSelection_AsksSoManyMoreRoundedUp) {
  ServerConfig server;
  const auto asked = [&](int64_t wanted, double over) {
    server.clients_per_round = wanted;
    server.over_selection = over;
    return server.clients_asked();
  };
  EXPECT_EQ(asked(10, 1), 10);
  EXPECT_EQ(asked(10, 1.3), 13);
  EXPECT_EQ(asked(10, 1.1), 11) << "1.1 × 10 is a little more than 11 in binary";
  EXPECT_EQ(asked(10, 1.11), 12);
  EXPECT_EQ(asked(1000, 1.3), 1300);
  EXPECT_EQ(asked(1, 1.01), 2);
}

TEST(Scenario, TrainingDataNotGiven_IsForWhoeverNeedsItToRefuse) {
  const auto scenario = Parse("model.preset = \"mlp\"\ndata.partition.clients = 100\n");
  ASSERT_OK(scenario);
  EXPECT_EQ(scenario->data.train, "");
  EXPECT_EQ(Scenario::ParseStored(scenario->ToToml(), "stored")->data.train, "");
}

TEST(Refuse, ServerAlgorithm_NamesTheNewSpelling) {
  EXPECT_EQ(ErrorOf("[server]\nalgorithm = \"fedavg\"\n"),
            "server.algorithm in s.toml:2:13 is a separate table now; write [algorithm] name = \"fedavg\"");
  EXPECT_THAT(ErrorOf(kMinimal, {{"server.algorithm", "fedavg"}}), HasSubstr("write [algorithm] name = \"fedavg\""));
  EXPECT_THAT(ErrorOf(kMinimal, {{"algorithm", "fedavg"}}), HasSubstr("algorithm in --set must be a table"));
}

TEST(ParseStored, AnOlderProgramsConfiguration_IsReadAsTodays) {
  ASSERT_OK_AND_ASSIGN(const Scenario today, Parse(kMinimal));
  std::string text = today.ToToml();
  const std::string table = "[algorithm]\nname = \"fedavg\"\n\n[server]\n";
  const size_t at = text.find(table);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, table.size(), "[server]\nalgorithm = \"fedavg\"\n");
  ASSERT_OK_AND_ASSIGN(const Scenario stored, Scenario::ParseStored(text, "the stored run"));
  EXPECT_EQ(stored.ToToml(), today.ToToml());
  EXPECT_THAT(testing::ErrorOf(Scenario::ParseStored("[server]\nalgorithm = \"fedbest\"\n", "the stored run")),
              ::testing::AllOf(HasSubstr("algorithm.name in the stored run:2:13 must be one of \""),
                               HasSubstr("not \"fedbest\"")));
}

// A run of `stored` goes on with `now`; its configuration then, or why not.
std::string ResumedWith(const Scenario& stored, const StatusOr<Scenario>& now) {
  const auto resumed = ScenarioToResume(stored.ToToml(), "the stored run", *now);
  return resumed.ok() ? resumed->ToToml() : std::string(Message(resumed.status()));
}

TEST(ScenarioToResume, WhatIsNotGiven_StaysAsItWas) {
  ASSERT_OK_AND_ASSIGN(const Scenario stored, Parse(kMinimal, {{"run.rounds", "20"},
                                                               {"client.schedule.kind", "cosine"},
                                                               {"client.epochs", "3"},
                                                               {"server.deadline", "30"}}));
  EXPECT_EQ(stored.client.schedule.settings.at("length"), SettingValue(int64_t{20}));
  EXPECT_EQ(ResumedWith(stored, Parse(kMinimal)), stored.ToToml()) << "fewer rounds are the file's default";
  // A default that depends on other keys is not taken anew: twenty rounds were planned.
  ASSERT_OK_AND_ASSIGN(const Scenario longer,
                       Parse(kMinimal, {{"run.rounds", "30"}, {"client.schedule.kind", "cosine"}}));
  EXPECT_EQ(longer.client.schedule.settings.at("length"), SettingValue(int64_t{30}));
  ASSERT_OK_AND_ASSIGN(const Scenario resumed, ScenarioToResume(stored.ToToml(), "the stored run", longer));
  EXPECT_EQ(resumed.run.rounds, 30);
  EXPECT_EQ(resumed.client.schedule.settings.at("length"), SettingValue(int64_t{20}));
  EXPECT_OK(CheckSamePlanKeys(stored, resumed));
}

TEST(ScenarioToResume, OperationAndPlace_AreAsGivenNow) {
  ASSERT_OK_AND_ASSIGN(const Scenario stored, Parse(With("[server]\ndeadline = 30.0\n"), {{"data.test", "/old/test"}}));
  ASSERT_OK_AND_ASSIGN(
      const Scenario now,
      Scenario::Parse(With("[server]\ndeadline = 60.0\n[run]\nrounds = 5\n"), "s.toml", "/moved",
                      {{"server.staging_megabytes", "128"}, {"run.durability", "end"}, {"evaluation.every", "2"}}));
  ASSERT_OK_AND_ASSIGN(const Scenario resumed, ScenarioToResume(stored.ToToml(), "the stored run", now));
  EXPECT_EQ(resumed.server.deadline_seconds, 60) << "a file that was changed";
  EXPECT_EQ(resumed.server.staging_megabytes, 128);
  EXPECT_EQ(resumed.run.durability, "end");
  EXPECT_EQ(resumed.evaluation.every, 2);
  EXPECT_EQ(resumed.data.train, "/moved/mnist/train.tfrecord");
  EXPECT_EQ(resumed.data.test, "/old/test") << "a place that nobody gives";
  EXPECT_EQ(resumed.run.rounds, 10) << "a file's do not end a run that was given more";
  EXPECT_OK(CheckSamePlanKeys(stored, resumed));
}

// Which settings a rule of one's own has says its file, so that they are taken as they come.
TEST(Scenario, SettingsBesideARule_AreNumbersOfAnyName) {
  const std::pair<std::string, std::string> rule = {"algorithm.graph", "/r.pb"};
  ASSERT_OK_AND_ASSIGN(const Scenario own, Parse(kMinimal, {rule, {"algorithm.mu", "2"}, {"algorithm.zeta", "0.5"}}));
  EXPECT_EQ(std::get<double>(own.algorithm.settings.at("mu")), 2);
  EXPECT_EQ(std::get<double>(own.algorithm.settings.at("zeta")), 0.5);
  ASSERT_OK_AND_ASSIGN(const Scenario again, Scenario::ParseStored(own.ToToml(), "stored"));
  EXPECT_EQ(again.ToToml(), own.ToToml());
  EXPECT_THAT(ErrorOf(kMinimal, {rule, {"algorithm.mu", "text"}}), HasSubstr("algorithm.mu in --set must be a"));
  EXPECT_THAT(ErrorOf(kMinimal, {{"algorithm.zeta", "0.5"}}), HasSubstr("unknown key 'algorithm.zeta'"));
  EXPECT_THAT(ResumedWith(own, Parse(kMinimal, {{"algorithm.zeta", "0.25"}, rule})),
              HasSubstr("algorithm.zeta was 0.5 when the run began, and is 0.25 now"));
}

TEST(ScenarioToResume, AnotherPlanKey_IsRefusedByName) {
  ASSERT_OK_AND_ASSIGN(const Scenario stored, Parse(kMinimal));
  const std::pair<const char*, const char*> cases[] = {
      {"server.learning_rate", "0.5"},   {"server.value_bits", "3"},
      {"server.max_weight", "17"},       {"run.seed", "9"},
      {"client.optimizer.kind", "adam"}, {"model.graph", "g.pb"},
      {"client.input_graph", "i.pb"},    {"data.partition.clients", "50"}};
  for (const auto& [key, value] : cases) {
    EXPECT_THAT(ResumedWith(stored, Parse(kMinimal, {{key, value}})), HasSubstr("when the run began")) << key;
  }
  EXPECT_EQ(ResumedWith(stored, Parse(kMinimal, {{"server.value_bits", "3"}})),
            "server.value_bits was 10 when the run began, and is 3 now. It affects the run's results (its class is "
            "\"plan\"); only keys of the classes \"operation\" and \"place\" may change: start a new run");
  EXPECT_EQ(ResumedWith(stored, Parse(kMinimal, {{"server.value_bits", "10"}})), stored.ToToml());
}

// The seed and the algorithm are the plan's, rounds and deadlines whoever runs it says, defaults included.
TEST(ScenarioOfPlan, PlanKeysAreThePlans_TheOthersAreAsGivenNow) {
  ASSERT_OK_AND_ASSIGN(const Scenario built, Parse(With("[server]\ndeadline = 30.0\n[run]\nseed = 9\nrounds = 7\n"),
                                                   {{"client.schedule.kind", "cosine"}, {"data.test", "/built/test"}}));
  const std::string keys = built.PlanKeysToToml();
  EXPECT_THAT(keys, HasSubstr("seed = 9\n"));
  EXPECT_THAT(keys, HasSubstr("length = 7\n")) << "a default that followed from what was built";
  EXPECT_THAT(keys, ::testing::Not(HasSubstr("rounds")));
  EXPECT_THAT(keys, ::testing::Not(HasSubstr("/built/test")));
  ASSERT_OK_AND_ASSIGN(const Scenario now, Parse(kMinimal, {{"data.test", "/here/test"}}));
  ASSERT_OK_AND_ASSIGN(const Scenario run, ScenarioOfPlan(keys, "p.keys.toml", now));
  EXPECT_EQ(run.run.seed, 9u);
  EXPECT_EQ(run.run.rounds, now.run.rounds);
  EXPECT_EQ(run.server.deadline_seconds, now.server.deadline_seconds);
  EXPECT_EQ(run.client.schedule.settings.at("length"), SettingValue(int64_t{7}));
  EXPECT_EQ(run.data.test, "/here/test");
  EXPECT_OK(CheckSamePlanKeys(built, run));
  ASSERT_OK_AND_ASSIGN(const Scenario same, ScenarioOfPlan(keys, "p.keys.toml", built));
  EXPECT_EQ(same.ToToml(), built.ToToml());
}

TEST(ScenarioOfPlan, ContradictingScenario_IsRefusedByName) {
  ASSERT_OK_AND_ASSIGN(const Scenario built, Parse(kMinimal));
  const auto with = [&](const char* key, const char* value) {
    const auto now = Parse(kMinimal, {{key, value}});
    return testing::ErrorOf(ScenarioOfPlan(built.PlanKeysToToml(), "p.keys.toml", *now));
  };
  EXPECT_EQ(with("client.epochs", "17"),
            "client.epochs was 1 when the plan was built (p.keys.toml), and is 17 in the scenario; leave it away, or "
            "build the plan again");
  EXPECT_EQ(with("client.epochs", "1"), "no error");
  EXPECT_EQ(with("evaluation.every", "3"), "no error");
}

// Clients keep the budget of examples by the plan that they have; a budget of the run is the coordinator's.
TEST(ScenarioToResume, BudgetOfExamples_IsThePlans_AndThatOfARunIsNot) {
  const auto with = [](const std::string& unit, const std::string& key, const std::string& value) {
    return Parse(kMinimal, {{"privacy.unit", unit},
                            {"privacy.clip", "1.0"},
                            {"privacy.noise", "1.0"},
                            {"privacy.epsilon", "8.0"},
                            {key, value}});
  };
  for (const auto& [key, value] : {std::pair("privacy.epsilon", "9.0"), std::pair("privacy.delta", "1e-6")}) {
    ASSERT_OK_AND_ASSIGN(const Scenario stored, with("example", "privacy.epsilon", "8.0"));
    ASSERT_OK_AND_ASSIGN(const Scenario now, with("example", key, value));
    EXPECT_THAT(ScenarioToResume(stored.ToToml(), "the stored run", now),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         ::testing::AllOf(HasSubstr(key), HasSubstr("is in the plan that clients have"))));
    EXPECT_OK(ScenarioToResume(stored.ToToml(), "the stored run", stored));
    ASSERT_OK_AND_ASSIGN(const Scenario of_clients, with("client", "privacy.epsilon", "8.0"));
    ASSERT_OK_AND_ASSIGN(const Scenario more, with("client", key, value));
    ASSERT_OK_AND_ASSIGN(const Scenario resumed, ScenarioToResume(of_clients.ToToml(), "the stored run", more));
    EXPECT_EQ(resumed.privacy.epsilon, more.privacy.epsilon);
    EXPECT_EQ(resumed.privacy.delta, more.privacy.delta);
  }
}

TEST(ScenarioToResume, WhatDoesNotGoTogether_IsRefused) {
  ASSERT_OK_AND_ASSIGN(const Scenario stored, Parse(kMinimal));
  ASSERT_OK_AND_ASSIGN(const Scenario now,
                       Parse(kMinimal, {{"server.clients_per_round", "20"}, {"server.min_reports", "15"}}));
  Scenario only_reports = now;
  only_reports.given.erase("server.clients_per_round");
  EXPECT_THAT(ResumedWith(stored, only_reports), HasSubstr("server.min_reports = 15 (--set) is more than"));
}

TEST(Refuse, AKeyThatDoesNotApply_IsNotIgnored) {
  EXPECT_EQ(ErrorOf(With("[client]\noptimizer = { kind = \"sgd\", momentum = 0.9 }\n")),
            "client.optimizer.momentum in s.toml:7:40 has an effect only when client.optimizer.kind is \"momentum\" or "
            "\"rmsprop\"; remove it, or change client.optimizer.kind");
  EXPECT_EQ(ErrorOf(kMinimal, {{"data.partition.alpha", "1"}}),
            "data.partition.alpha in --set has an effect only when data.partition.kind is \"dirichlet\" or "
            "\"label_dirichlet\"; remove it, or change data.partition.kind");
  EXPECT_THAT(ErrorOf(kMinimal, {{"data.partition.kind", "iid"}, {"data.partition.alpha", "1"}}),
              HasSubstr("has an effect only when"));
}

}  // namespace
}  // namespace rivulet
