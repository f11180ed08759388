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
  std::string stop;      // "accuracy >= 0.99": when a run ends sooner (stop_condition.h); "": never
  int64_t patience = 0;  // so many measured versions in turn without a better one end it; 0: none do
  uint64_t seed = 1;
  std::string keep_models = "last";  // "last" or "all": which committed models stay on disk
  std::string durability;            // "round", "second", "end"; "": "second" in a simulation, "round" otherwise
  std::string kernels = "native";    // or "portable"
  int64_t cache_megabytes = 1024;    // of decoded examples kept in memory; 0: none
};

// One table of [[model.layers]] or [[model.inputs]], as engine/models/layer_list.h and input_list.h take it (this file
// needs only the engine's base).
using LayerSpec = SettingValues;

struct InputConfig {            // [model.input]
  std::vector<int64_t> shape;   // of one example; empty: the preset's own
  std::string kind = "pixels";  // pixels, values, tokens; for `layers`
};

struct LoraConfig {                          // [model.lora]: adapters beside the products of a frozen model
  std::vector<std::string> targets;          // patterns of variables that get one; empty: there are none
  std::vector<std::string> modules_to_save;  // patterns of further variables that stay trainable
  int64_t rank = 8;
  double alpha = 16;
  double dropout = 0;     // on the adapters' inputs, in training
  bool freeze_a = false;  // A keeps its first values
  bool rslora = false;    // alpha / sqrt(rank) instead of alpha / rank
};

struct ModelConfig {
  std::string preset;  // exactly one of preset, graph, onnx, arrays and layers
  std::string graph;   // a GraphDef file (absolute after parsing)
  std::string onnx;    // an ONNX model (absolute after parsing)
  std::string arrays;  // a safetensors file (absolute after parsing): a model without a graph
  std::string base;    // a safetensors file, or a folder of several (absolute after parsing): what no task changes
  std::vector<LayerSpec> layers;
  std::string weights;  // a safetensors file (absolute after parsing) that a run begins with; "": the model's own
  InputConfig input;
  std::vector<LayerSpec> inputs;  // in its place, for layers, graph and onnx: several inputs, by name
  std::string columns;  // a columns.json (absolute after parsing) by which floats are standardised; "": they are not
  int64_t classes = 0;  // 0: the preset's own
  std::string normalization;                               // "": the preset's own
  SettingValues objective_settings;                        // options of `objective`, of those that are given
  std::string target = "class";                            // class, labels, numbers; for `layers` and `onnx`
  std::string objective = "sparse_softmax_cross_entropy";  // for these; unless given, what is usual for the target
  std::vector<std::string> trainable;                      // for `onnx`: patterns of initializers that are variables
  std::vector<std::string> freeze;                         // patterns of variables that keep their first values
  std::vector<std::string> personal;                       // and of those of which each client keeps its own
  LoraConfig lora;
  std::string loss = "loss";          // for `graph`: scalar tensor, mean over the batch
  std::vector<std::string> metrics;   // of `graph` scalar tensors; else names; empty: the usual
  std::string image_input = "image";  // for `graph`: placeholders fed from the features
  std::string label_input = "label";
};

struct PartitionConfig {
  std::string kind = "iid";       // as registered (setup/partitioners)
  int64_t clients = 0;            // 0: as many as the partitioner finds
  SettingValues settings;         // its options, of those that are given
  std::vector<std::string> tags;  // "TAG=PATTERN": whose names match have the tag
};

// [data.shift]: clients of a simulation, and files of a partition, whose features differ from what was recorded.
struct ShiftConfig {
  std::string kind;        // as registered (setup/feature_shifts); "" for none
  int64_t groups = 0;      // how many shifts there are, dealt in turn; 0: one for each client
  SettingValues settings;  // its options, of those that are given
};

struct SynthConfig {       // [data.synth]: generated on first use unless data.train is own data
  std::string kind;        // as registered (setup/generators); "" for none
  SettingValues settings;  // its options, of those that are given
};

struct DataConfig {
  std::string train;               // a pattern of files (absolute after parsing)
  std::string test;                // "" for none
  std::string validation;          // a pattern of files; "" for none
  double validation_fraction = 0;  // of the training examples, held out for validation
  std::vector<std::string> tests;  // "NAME=PATTERN" (absolute after parsing): test sets beside `test`
  std::string name = "train";      // that clients bind theirs to
  PartitionConfig partition;
  std::string input_feature;  // "" for the model's own: image, tokens
  std::string label_feature = "label";
  ShiftConfig shift;
  SynthConfig synth;
};

struct OptimizerConfig {
  std::string kind = "sgd";  // of OptimizerTables() (engine/optimizers/settings)
  double learning_rate = 0.1;
  SettingValues settings;  // its other options, of those that are given
  double clip_norm = 0;    // 0: none
  double clip_value = 0;   // 0: none

  double weight_decay() const;  // given, or what is usual for the kind
};

// [client.schedule], [server.schedule]: what becomes of client.optimizer.learning_rate and of server.learning_rate.
struct ScheduleConfig {
  std::string kind = "constant";  // as registered (federated/plan/schedules, federated/server_optimizers/schedules)
  std::string unit = "round";     // round, step: of the task; the server's are versions
  int64_t warmup = 0;             // units that the rate takes to rise
  SettingValues settings;         // its options, of those that are given; parsing gives "length" a value
};

struct LossScaleConfig {      // [client.loss_scale]
  std::string kind = "none";  // as registered (federated/plan/loss_scales)
  SettingValues settings;     // its options, of those that are given
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
  double partial_work = 0;          // share of the tasks that do less than `epochs`
};

struct AlgorithmConfig {
  std::string name = "fedavg";
  std::string graph;       // a local rule (federated/local_rules; absolute after parsing); "": the algorithm's own
  SettingValues settings;  // its own options, as its table has them (federated/settings); parsing completes them. With
                           // a rule its settings too, as they are given: numbers, which only the rule's file knows
};

struct AttackConfig {      // of a simulation; what is deployed is refused with one
  std::string name;        // as registered (simulations/attacks); "" for none
  double fraction = 0.2;   // of the clients that are attackers
  SettingValues settings;  // its own options, as the algorithm's
};

// Of a simulation; what is deployed is refused with any. Laws as simulations/fleet/law.h has them; "": none.
struct DevicesConfig {
  std::string compute;            // operations a second
  std::string download, upload;   // bytes a second
  std::string delay;              // seconds that a task takes beside these
  std::string failure;            // seconds of work after which a device is gone
  std::string availability;       // share of `period` in which a device is there
  std::string server;             // seconds that a version takes where it is made
  std::string trace;              // a file (absolute after parsing): when who is there, and how fast; "" for none
  double period_seconds = 86400;  // key: devices.period
  bool any() const {
    return !(compute.empty() && download.empty() && upload.empty() && delay.empty() && failure.empty() &&
             availability.empty() && server.empty() && trace.empty());
  }
};

struct SelectionConfig {
  std::string name = "uniform";   // as registered (federated/selection)
  SettingValues settings;         // its own options, as the algorithm's
  std::vector<std::string> tags;  // that a member has, all of them
  int64_t min_examples = 0;       // of a member
  std::string trace;              // a file (absolute after parsing): when who may be drawn; "" for none
  int64_t period = 0;             // rounds after which it begins anew; 0: it does not
};

struct PrivacyConfig {                  // what a client does to its update before it leaves it
  std::string unit = "client";          // whom noise protects: client, example
  double clip = 0;                      // largest norm; 0: none
  double noise = 0;                     // deviation, as a multiple of clip; 0: none
  std::string noise_source = "secure";  // secure, seeded
  double epsilon = 0;                   // budget of the run against viewers of its models; 0: none
  double delta = 1e-5;                  // of every epsilon that is reported
};

struct SecureConfig {             // [privacy] secure and the keys beside it: how updates are summed
  std::string protocol = "none";  // key: privacy.secure; none, arithmetic, secagg_plus
  int64_t min_survivors = 3;      // clients in a sum
  int64_t min_cohort = 3;         // clients whose keys a cohort lists
  int64_t max_colluding = 0;      // names of the population that may collude with a lying coordinator
  double drop_out = 0.1;          // the share of a cohort that may drop out
  int64_t least_sum = 1;          // honest clients in the smallest sum that a lying coordinator may learn
  bool on() const { return protocol != "none"; }
};

struct UpdateConfig {
  std::string codec = "f32";   // as registered (federated/codecs)
  SettingValues settings;      // its options, of those that are given
  bool error_feedback = true;  // what it leaves out is added to the client's next update
};

struct FineTuneConfig {  // [server.fine_tune]: of each version, on what the server has
  std::string data;      // a file (absolute after parsing); "": none
  int64_t epochs = 1;    // over it, a version
  int64_t batch_size = 10;
  double learning_rate = 0.01;
};

struct ServerConfig {
  int64_t clients_per_round = 10;   // unless given at most data.partition.clients
  double over_selection = 1;        // times as many are asked; the first clients_per_round make the version
  int64_t min_clients = 0;          // 0: data.partition.clients; the first selection waits for so many names
  int64_t min_reports = 0;          // 0: four of five of clients_per_round; fewer folded updates abandon the attempt
  double deadline_seconds = 600;    // key: server.deadline
  double lease_seconds = 60;        // key: server.lease; of silence, after which a client's task goes to another
  double presence_seconds = 60;     // key: server.presence; who has been silent for longer is not drawn
  int64_t max_attempts = 0;         // at one round, before the run fails; 0: 3 simulated, no limit deployed
  std::string base;                 // committed, latest: what a task starts from; "": as the algorithm says
  int64_t in_flight = 0;            // tasks at a time where base is latest; 0: clients_per_round
  int64_t max_staleness = 10;       // versions that an update may be late where base is latest
  double staleness_exponent = 0.5;  // one that is t versions late counts 1 / (1 + t)^this
  double learning_rate = 1.0;       // of the server: model + learning_rate × mean delta
  ScheduleConfig schedule;          // of that
  FineTuneConfig fine_tune;
  std::string lora;                  // average, freeze_a, stack: how adapters are aggregated; "": as freeze_a says
  int64_t lora_rank = 0;             // of a version's adapters under stack; 0: as the model has them
  double average = 0;                // of the versions: how much of it stays in each; 0: none is kept
  std::string download = "f32";      // the codec by which a version travels to clients
  std::string weights = "examples";  // what an update counts where its algorithm does not say: or "uniform"
  int64_t max_weight = 65536;
  int64_t value_bits = 10;
  int64_t sum_bits = 64;
  int64_t staging_megabytes = 64;   // updates in memory before they spill to an unlinked file
  std::string partial = "memory";   // memory, disk: where a deployed coordinator's sums are
  bool checkpoint_reports = false;  // updates lie on disk before they are acknowledged
  bool serve_base = true;           // clients may download model.base; else each brings its own

  int64_t clients_asked() const;  // for a round: over_selection × clients_per_round, rounded up
};

struct EvaluationConfig {
  int64_t every = 1;  // rounds; 0: never; the last round is always evaluated unless 0
  int64_t batch_size = 100;
  int64_t federated_every = 0;    // versions that clients measure; 0: none; the last is always measured unless 0
  int64_t federated_clients = 0;  // that measure one; 0: as many as train
  int64_t fine_tune_epochs = 0;   // after which a client measures it once more; 0: it does not
};

// What of a scenario a caller uses.
enum class ScenarioPart : uint8_t {
  kAll,
  kData,  // [data] and run.seed: who holds what
};

struct Scenario {
  // Stated so that they are compiled once: with a hundred members they are long, and every file that holds a scenario
  // would have them.
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
  std::string folder;                 // that relative paths start from
  std::map<std::string, bool> given;  // keys that the file or an override gave; true: an override

  // Reads `path` and applies `overrides` ("key", "value"): dotted keys that reach into inline tables; the value is
  // TOML, else a plain string; paths in it are relative to the working directory. INVALID_ARGUMENT: syntax
  // (file:line:column), an unknown key (names the nearest), a wrong type (names key, wanted and given), a value out of
  // range, or keys that contradict each other (more clients per round than clients). NOT_FOUND: no such file.
  // `part`: what the caller uses; keys of other parts are neither asked for nor compared with each other.
  static StatusOr<Scenario> Load(const std::string& path,
                                 const std::vector<std::pair<std::string, std::string>>& overrides = {},
                                 ScenarioPart part = ScenarioPart::kAll);
  // The same from text, with `folder` for relative paths.
  static StatusOr<Scenario> Parse(const std::string& text, const std::string& path, const std::string& folder,
                                  const std::vector<std::pair<std::string, std::string>>& overrides = {},
                                  ScenarioPart part = ScenarioPart::kAll);
  // What the history stored, perhaps by an older program: keys that have another name today are read as those.
  static StatusOr<Scenario> ParseStored(const std::string& text, const std::string& path,
                                        const std::vector<std::pair<std::string, std::string>>& overrides = {});
  // Canonical TOML of every key that applies, absolute paths: what the history stores. Parse(ToToml()) gives the same
  // scenario.
  std::string ToToml() const;
  // Of these keys those that a plan is built from, and all others of class "plan": what lies beside a plan that another
  // process runs. ParseStored reads it.
  std::string PlanKeysToToml() const;
};

// What a key decides.
enum class KeyClass : uint8_t {
  kPlan,       // what is computed: the plan, the cohorts, the bits of the model
  kOperation,  // how it is carried out: rounds, deadlines, attempts, evaluation, what is kept
  kPlace,      // where files lie
};
std::string_view Name(KeyClass key_class);  // "plan", "operation", "place"

// OK when a run that `stored` began computes the same with `now`: keys of class "plan" have their values, and files
// that the plan is built from are there in both or in neither. `only_given`: no other keys of `now` are looked at.
// FAILED_PRECONDITION names the first that differs.
Status CheckSamePlanKeys(const Scenario& stored, const Scenario& now, bool only_given = false);

// What a run goes on with that was stored as `stored_toml`, when `now` is given: of class "plan" what it was; of class
// "operation" what `now` gives, or else what it was (run.rounds only where an override gives it); of class "place" what
// `now` has, or else what it was. So a default that depends on other keys is never taken anew. FAILED_PRECONDITION as
// CheckSamePlanKeys, of what `now` gives; otherwise as Parse. `path` is for messages.
StatusOr<Scenario> ScenarioToResume(const std::string& stored_toml, const std::string& path, const Scenario& now);

// What a run is that is started with a plan built elsewhere, beside which `plan_keys` lay (Scenario::PlanKeysToToml),
// when `now` is given: of class "plan" what the plan was built from, of the others what `now` has. FAILED_PRECONDITION
// names a key of class "plan" to which `now` gives another value; otherwise as Parse. `path` is for messages.
StatusOr<Scenario> ScenarioOfPlan(const std::string& plan_keys, const std::string& path, const Scenario& now);

struct ScenarioKey {
  std::string name;  // "client.optimizer.learning_rate"
  KeyClass key_class = KeyClass::kPlan;
  std::string type;           // "integer", "float", "string", "boolean", "array of strings"
  std::string default_value;  // as TOML between backticks, or in words where it depends on other keys
  std::string allowed;        // "at least 1", "\"iid\", \"shards\"…"; "" for anything
  std::string applies_when;   // "data.partition.kind is \"shards\""; "" for always. Given elsewhere it is refused
  std::string example;        // a TOML value other than the default
  std::string doc;
};
const std::vector<ScenarioKey>& ScenarioKeys();
// The reference of every key as Markdown: what docs/reference/scenario.md holds between its markers.
std::string ScenarioReference();

}  // namespace rivulet
