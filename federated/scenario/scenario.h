// A scenario: the complete description of a run, read from TOML. Every key has a default and a documented meaning
// (federated/scenario/keys/ is the one table: name, type, default, doc; docs/reference/scenario.md is checked against
// it).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/setting.h"
#include "engine/base/status.h"

namespace rivulet {

struct RunConfig {
  std::string name;  // default: the scenario file's stem
  int64_t rounds = 10;
  std::string stop;      // condition that ends a run early, "accuracy >= 0.99" (stop_condition.h); "": none
  int64_t patience = 0;  // the run ends after so many measured versions without improvement; 0: never
  uint64_t seed = 1;
  std::string keep_models = "last";  // "last" or "all": committed models that stay on disk
  std::string durability;            // "round", "second", "end"; "": "second" in a simulation, "round" otherwise
  std::string kernels = "native";    // or "portable"
  int64_t cache_megabytes = 1024;    // limit of cached decoded examples; 0: none
};

// One table of [[model.layers]] or [[model.inputs]], in the form of engine/models/layer_list.h and input_list.h (this
// file needs only the engine's base).
using LayerSpec = SettingValues;

struct InputConfig {            // [model.input]
  std::vector<int64_t> shape;   // of one example; empty: the preset's own
  std::string kind = "pixels";  // pixels, values, tokens; for `layers`
};

struct LoraConfig {                          // [model.lora]: adapters on the products of a frozen model
  std::vector<std::string> targets;          // patterns of variables with adapters; empty: none
  std::vector<std::string> modules_to_save;  // patterns of further variables that stay trainable
  int64_t rank = 8;
  double alpha = 16;
  double dropout = 0;     // on the adapters' inputs, in training
  bool freeze_a = false;  // A keeps its initial values
  bool rslora = false;    // alpha / sqrt(rank) instead of alpha / rank
};

struct ModelConfig {
  std::string preset;  // exactly one of preset, graph, onnx, arrays and layers
  std::string graph;   // a GraphDef file (absolute after parsing)
  std::string onnx;    // an ONNX model (absolute after parsing)
  std::string arrays;  // a safetensors file (absolute after parsing): a model without a graph
  std::string base;    // a safetensors file, or a folder of several (absolute after parsing): frozen variables
  std::vector<LayerSpec> layers;
  std::string weights;  // a safetensors file (absolute after parsing) with a run's initial values; "": the model's own
  InputConfig input;
  std::vector<LayerSpec> inputs;     // instead of `input`, for layers, graph and onnx: several inputs, by name
  std::string columns;               // a columns.json (absolute after parsing) that standardises floats; "": none
  int64_t classes = 0;               // 0: the preset's own
  std::string normalization;         // "": the preset's own
  SettingValues objective_settings;  // given options of `objective`
  std::string target = "class";      // class, labels, numbers; for `layers` and `onnx`
  std::string objective = "sparse_softmax_cross_entropy";  // for these; by default the usual objective of the target
  std::vector<std::string> trainable;                      // for `onnx`: patterns of initializers that are variables
  std::vector<std::string> freeze;                         // patterns of variables that keep their initial values
  std::vector<std::string> personal;                       // patterns of variables that each client keeps for itself
  LoraConfig lora;
  std::string loss = "loss";          // for `graph`: scalar tensor, mean over the batch
  std::vector<std::string> metrics;   // of `graph` scalar tensors; else names; empty: the usual
  std::string image_input = "image";  // for `graph`: placeholders fed from the features
  std::string label_input = "label";
};

struct PartitionConfig {
  std::string kind = "iid";       // as registered (setup/partitioners)
  int64_t clients = 0;            // 0: the number that the partitioner finds
  SettingValues settings;         // its given options
  std::vector<std::string> tags;  // "TAG=PATTERN": clients whose names match have the tag
};

// [data.shift]: changes of features for clients of a simulation, or for files of a partition.
struct ShiftConfig {
  std::string kind;        // as registered (setup/feature_shifts); "" for none
  int64_t groups = 0;      // number of shifts, assigned in turn; 0: one per client
  SettingValues settings;  // its given options
};

struct SynthConfig {       // [data.synth]: generated on first use unless data.train is own data
  std::string kind;        // as registered (setup/generators); "" for none
  SettingValues settings;  // its given options
};

struct DataConfig {
  std::string train;               // a pattern of files (absolute after parsing)
  std::string test;                // "" for none
  std::string validation;          // a pattern of files; "" for none
  double validation_fraction = 0;  // share of training examples that is held out for validation
  std::vector<std::string> tests;  // "NAME=PATTERN" (absolute after parsing): further test sets
  std::string name = "train";      // name to which clients bind their data
  PartitionConfig partition;
  std::string input_feature;  // "" for the model's own: image, tokens
  std::string label_feature = "label";
  ShiftConfig shift;
  SynthConfig synth;
};

struct OptimizerConfig {
  std::string kind = "sgd";  // of OptimizerTables() (engine/optimizers/settings)
  double learning_rate = 0.1;
  SettingValues settings;  // its other given options
  double clip_norm = 0;    // 0: none
  double clip_value = 0;   // 0: none

  double weight_decay() const;  // the given value, or the usual one of the kind
};

// [client.schedule], [server.schedule]: change of client.optimizer.learning_rate and of server.learning_rate over time.
struct ScheduleConfig {
  std::string kind = "constant";  // as registered (federated/plan/schedules, federated/server_optimizers/schedules)
  std::string unit = "round";     // round, or step (of the task); for the server, versions
  int64_t warmup = 0;             // units until the full rate is reached
  SettingValues settings;         // its given options; parsing sets "length"
};

struct LossScaleConfig {      // [client.loss_scale]
  std::string kind = "none";  // as registered (federated/plan/loss_scales)
  SettingValues settings;     // its given options
};

struct ClientConfig {
  int64_t epochs = 1;
  int64_t batch_size = 10;
  bool shuffle = true;
  std::string input_graph;  // a GraphDef file of dataset ops (absolute after parsing), "" for none
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  std::string precision = "float32";  // of products: float32, bfloat16, float16
  LossScaleConfig loss_scale;
  std::vector<std::string> frozen;  // "PATTERN=FROM..UNTIL": variables that are not trained in these rounds
  double partial_work = 0;          // share of tasks with fewer than `epochs` epochs
};

struct AlgorithmConfig {
  std::string name = "fedavg";
  std::string graph;       // a local rule (federated/local_rules; absolute after parsing); "": the algorithm's own
  SettingValues settings;  // its own options, as in its table (federated/settings), completed by parsing. With a rule
                           // also the rule's given settings: numbers that only the rule's file defines
};

struct AttackConfig {      // for simulations; deployments refuse it
  std::string name;        // as registered (simulations/attacks); "" for none
  double fraction = 0.2;   // share of malicious clients
  SettingValues settings;  // its own options, as for the algorithm
};

// For simulations; deployments refuse it. Laws are those of simulations/fleet/law.h; "": none.
struct DevicesConfig {
  std::string compute;            // operations a second
  std::string download, upload;   // bytes a second
  std::string delay;              // further seconds of a task
  std::string failure;            // seconds of work until a device fails
  std::string availability;       // share of `period` in which a device is available
  std::string server;             // seconds to make a version
  std::string trace;              // a file (absolute after parsing): availability and speed of devices; "": none
  double period_seconds = 86400;  // key: devices.period
  bool any() const {
    return !(compute.empty() && download.empty() && upload.empty() && delay.empty() && failure.empty() &&
             availability.empty() && server.empty() && trace.empty());
  }
};

struct SelectionConfig {
  std::string name = "uniform";   // as registered (federated/selection)
  SettingValues settings;         // its own options, as for the algorithm
  std::vector<std::string> tags;  // a member must have all of these tags
  int64_t min_examples = 0;       // of a member
  std::string trace;              // a file (absolute after parsing): when clients may be selected; "" for none
  int64_t period = 0;             // rounds after which the trace repeats; 0: never
};

struct PrivacyConfig {                  // changes of an update before it leaves its client
  std::string unit = "client";          // the unit that noise protects: client, example
  double clip = 0;                      // largest norm; 0: none
  double noise = 0;                     // deviation, as a multiple of clip; 0: none
  std::string noise_source = "secure";  // secure, seeded
  double epsilon = 0;                   // budget of the run against viewers of its models; 0: none
  double delta = 1e-5;                  // for every reported epsilon
};

struct SecureConfig {             // [privacy] secure and related keys: the protocol that sums updates
  std::string protocol = "none";  // key: privacy.secure; none, arithmetic, secagg_plus
  int64_t min_survivors = 3;      // clients in a sum
  int64_t min_cohort = 3;         // clients with keys in a cohort's list
  int64_t max_colluding = 0;      // clients that may collude with a malicious coordinator
  double drop_out = 0.1;          // the largest share of a cohort that may drop out
  int64_t least_sum = 1;          // honest clients in the smallest sum that a malicious coordinator may learn
  bool on() const { return protocol != "none"; }
};

struct UpdateConfig {
  std::string codec = "f32";   // as registered (federated/codecs)
  SettingValues settings;      // its given options
  bool error_feedback = true;  // the codec's error is added to the client's next update
};

struct FineTuneConfig {  // [server.fine_tune]: of each version, on the server's own data
  std::string data;      // a file (absolute after parsing); "": none
  int64_t epochs = 1;    // epochs per version
  int64_t batch_size = 10;
  double learning_rate = 0.01;
};

struct ServerConfig {
  int64_t clients_per_round = 10;   // default: at most data.partition.clients
  double over_selection = 1;        // factor of selected clients; the first clients_per_round updates make the version
  int64_t min_clients = 0;          // members before the first selection; 0: data.partition.clients
  int64_t min_reports = 0;          // with fewer updates an attempt is abandoned; 0: 80 % of clients_per_round
  double deadline_seconds = 600;    // key: server.deadline
  double lease_seconds = 60;        // key: server.lease; after such a silence, a client's task is reassigned
  double presence_seconds = 60;     // key: server.presence; clients silent for longer are not selected
  int64_t max_attempts = 0;         // for one round, then the run fails; 0: 3 in a simulation, no limit in deployment
  std::string base;                 // committed, latest: base version of tasks; "": set by the algorithm
  int64_t in_flight = 0;            // concurrent tasks if base is latest; 0: clients_per_round
  int64_t max_staleness = 10;       // limit of staleness, in versions, if base is latest
  double staleness_exponent = 0.5;  // an update t versions late has the weight 1 / (1 + t)^this
  double learning_rate = 1.0;       // model + learning_rate × mean delta
  ScheduleConfig schedule;          // of learning_rate
  FineTuneConfig fine_tune;
  std::string lora;                  // average, freeze_a, stack: aggregation of adapters; "": by freeze_a
  int64_t lora_rank = 0;             // rank of a version's adapters with stack; 0: the model's rank
  double average = 0;                // weight of the old average in an exponential average of versions; 0: no average
  std::string download = "f32";      // the codec for versions sent to clients
  std::string weights = "examples";  // weight of updates, unless the algorithm sets it; or "uniform"
  int64_t max_weight = 65536;
  int64_t value_bits = 10;
  int64_t sum_bits = 64;
  int64_t staging_megabytes = 64;   // updates in memory before they spill to an unlinked file
  std::string partial = "memory";   // memory, disk: place of a deployed coordinator's sums
  bool checkpoint_reports = false;  // updates are on disk before they are acknowledged
  bool serve_base = true;           // clients may download model.base; else each needs a copy

  int64_t clients_asked() const;  // per round: over_selection × clients_per_round, rounded up
};

struct EvaluationConfig {
  int64_t every = 1;  // rounds; 0: never; the last round is always evaluated unless 0
  int64_t batch_size = 100;
  int64_t federated_every = 0;    // versions between measurements by clients; 0: none; else also the last one
  int64_t federated_clients = 0;  // clients per measurement; 0: as many as train
  int64_t fine_tune_epochs = 0;   // epochs before clients measure a version a second time; 0: none
};

// The part of a scenario that a caller uses.
enum class ScenarioPart : uint8_t {
  kAll,
  kData,  // [data] and run.seed: the division of data
};

struct Scenario {
  // Defined in scenario.cc, so that they are compiled
  // only once: with a hundred members they are long.
  Scenario();
  Scenario(const Scenario& other);
  Scenario(Scenario&& other) noexcept;
  Scenario& operator=(const Scenario& other);
  Scenario& operator=(Scenario&& other) noexcept;
  ~Scenario();

  RunConfig run;
  ModelConfig model;
  DataConfig data;
  ClientConfig client;
  AlgorithmConfig algorithm;
  SelectionConfig selection;
  PrivacyConfig privacy;
  SecureConfig secure;
  UpdateConfig update;
  ServerConfig server;
  EvaluationConfig evaluation;
  AttackConfig attack;
  DevicesConfig devices;
  std::string path;                   // of the file, for messages
  std::string folder;                 // base of relative paths
  std::map<std::string, bool> given;  // keys given by the file (false) or by an override (true)

  // Reads `path` and applies `overrides` ("key", "value"). Override keys are dotted and may address inline tables; a
  // value is TOML, else a plain string; its paths are relative to the working directory. INVALID_ARGUMENT: syntax
  // (file:line:column), an unknown key (names the nearest), a wrong type (names key, expected and given type), a value
  // out of range, or contradictory keys (more clients per round than clients). NOT_FOUND: no such file. `part`: the
  // part that the caller uses; other keys are neither required nor checked for contradictions.
  static StatusOr<Scenario> Load(const std::string& path,
                                 const std::vector<std::pair<std::string, std::string>>& overrides = {},
                                 ScenarioPart part = ScenarioPart::kAll);
  // Parses text, with `folder` as the base of relative paths.
  static StatusOr<Scenario> Parse(const std::string& text, const std::string& path, const std::string& folder,
                                  const std::vector<std::pair<std::string, std::string>>& overrides = {},
                                  ScenarioPart part = ScenarioPart::kAll);
  // Parses a stored configuration, possibly of an older program: former names of keys are accepted.
  static StatusOr<Scenario> ParseStored(const std::string& text, const std::string& path,
                                        const std::vector<std::pair<std::string, std::string>>& overrides = {});
  // Canonical TOML of every key that applies, with absolute paths, as stored in the history. Parse(ToToml()) gives the
  // same scenario.
  std::string ToToml() const;
  // Canonical TOML of the keys of class "plan", with those that the plan is built from. It is stored in a file beside
  // a plan that another process runs. ParseStored reads it.
  std::string PlanKeysToToml() const;
};

// The class of a key.
enum class KeyClass : uint8_t {
  kPlan,       // affects results: the plan, the cohorts, the bits of the model
  kOperation,  // affects execution: rounds, deadlines, attempts, evaluation, stored files
  kPlace,      // paths of files
};
std::string_view Name(KeyClass key_class);  // "plan", "operation", "place"

// OK if a run started with `stored` computes the same with `now`: keys of class "plan" are equal, and each file that
// the plan is built from is present in both or in neither. `only_given`: checks only keys that `now` gives.
// FAILED_PRECONDITION names the first difference.
Status CheckSamePlanKeys(const Scenario& stored, const Scenario& now, bool only_given = false);

// The scenario of a resumed run stored as `stored_toml`, with `now` given. Keys of class "plan" keep their stored
// values. Those of class "operation" have the value that `now` gives, else the stored one (run.rounds changes only by
// an override); of class "place", the value of `now`, else the stored one. So defaults that depend on other keys are
// kept. FAILED_PRECONDITION as CheckSamePlanKeys for given keys; otherwise as Parse. `path` is for messages.
StatusOr<Scenario> ScenarioToResume(const std::string& stored_toml, const std::string& path, const Scenario& now);

// The scenario of a run with a plan built elsewhere, whose keys are `plan_keys` (Scenario::PlanKeysToToml), with `now`
// given. Keys of class "plan" have the plan's values, others those of `now`. FAILED_PRECONDITION names a key of class
// "plan" to which `now` gives another value; otherwise as Parse. `path` is for messages.
StatusOr<Scenario> ScenarioOfPlan(const std::string& plan_keys, const std::string& path, const Scenario& now);

struct ScenarioKey {
  std::string name;  // "client.optimizer.learning_rate"
  KeyClass key_class = KeyClass::kPlan;
  std::string type;           // "integer", "float", "string", "boolean", "array of strings"
  std::string default_value;  // as TOML in backticks, or in words if it depends on other keys
  std::string allowed;        // "at least 1", "\"iid\", \"shards\"…"; "" for anything
  std::string applies_when;   // "data.partition.kind is \"shards\""; "": always. Otherwise the key is refused
  std::string example;        // a TOML value other than the default
  std::string doc;
};
const std::vector<ScenarioKey>& ScenarioKeys();
// The reference of all keys as Markdown: the part between the markers in docs/reference/scenario.md.
std::string ScenarioReference();

}  // namespace rivulet
