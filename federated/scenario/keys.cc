#include "federated/scenario/keys.h"

#include <algorithm>

namespace rivulet::scenario {
namespace {

#define FIELD(path) +[](Scenario& s) -> decltype(auto) { return (s.path); }

bool HasGraph(const Scenario& s) { return !s.model.graph.empty(); }
bool HasNoInputGraph(const Scenario& s) { return s.client.input_graph.empty(); }
bool HasPreset(const Scenario& s) { return !s.model.preset.empty(); }
bool HasLayers(const Scenario& s) { return !s.model.layers.empty(); }
bool HasLayersOrOnnx(const Scenario& s) { return HasLayers(s) || !s.model.onnx.empty(); }
bool HasNoGraph(const Scenario& s) { return !HasGraph(s); }
bool IsNormalized(const Scenario& s) {
  const std::string& preset = s.model.preset;
  return preset == "resnet8" || preset == "resnet20" || preset == "mobilenet_v2";
}
bool IsShards(const Scenario& s) { return s.data.partition.kind == "shards"; }
bool IsDirichlet(const Scenario& s) { return s.data.partition.kind == "dirichlet"; }
bool HasLossScale(const Scenario& s) { return s.client.loss_scale.kind != "none"; }
bool ScalesDynamically(const Scenario& s) { return s.client.loss_scale.kind == "dynamic"; }
bool IsByKey(const Scenario& s) { return s.data.partition.kind == "by_key"; }
bool HasSynth(const Scenario& s) { return !s.data.synth.kind.empty(); }
bool IsMomentum(const Scenario& s) { return s.client.optimizer.kind == "momentum"; }
bool HasMomentum(const Scenario& s) { return IsMomentum(s) || s.client.optimizer.kind == "rmsprop"; }
bool HasRho(const Scenario& s) { return s.client.optimizer.kind == "rmsprop" || s.client.optimizer.kind == "adadelta"; }
bool IsRmsProp(const Scenario& s) { return s.client.optimizer.kind == "rmsprop"; }
bool HasBetas(const Scenario& s) {
  const std::string& kind = s.client.optimizer.kind;
  return kind == "adam" || kind == "adamw" || kind == "yogi";
}
bool IsAdaptive(const Scenario& s) { return s.client.optimizer.kind != "sgd" && !IsMomentum(s); }
bool HasAccumulator(const Scenario& s) {
  return s.client.optimizer.kind == "adagrad" || s.client.optimizer.kind == "yogi";
}
bool IsScheduled(const Scenario& s) { return s.client.schedule.kind != "constant" || s.client.schedule.warmup > 0; }
bool Decays(const Scenario& s) { return s.client.schedule.kind != "constant"; }
bool DecaysByRate(const Scenario& s) {
  return s.client.schedule.kind == "step" || s.client.schedule.kind == "exponential";
}
bool DecaysToEnd(const Scenario& s) {
  return s.client.schedule.kind == "cosine" || s.client.schedule.kind == "polynomial";
}
bool IsPolynomial(const Scenario& s) { return s.client.schedule.kind == "polynomial"; }

Key&& ForGraph(Key&& key) { return std::move(key).When("model.graph", HasGraph, "model.graph is given"); }
Key&& ForSynth(Key&& key) { return std::move(key).When("data.synth.kind", HasSynth, "data.synth.kind is given"); }
Key&& ForKinds(Key&& key, bool (*predicate)(const Scenario&), std::string_view kinds) {
  return std::move(key).When("client.optimizer.kind", predicate, fmt::format("client.optimizer.kind is {}", kinds));
}
Key&& ForSchedule(Key&& key, bool (*predicate)(const Scenario&), std::string_view kinds) {
  return std::move(key).When("client.schedule.kind", predicate, fmt::format("client.schedule.kind is {}", kinds));
}

std::vector<Key> MakeKeys() {
  std::vector<Key> keys;
  const auto add = [&](Key&& key) { keys.push_back(std::move(key)); };

  add(Key("run.name", FIELD(run.name), "\"mnist-fedavg\"",
          "What the run is called in the history, where `latest` is taken. Several runs may share a name; the newest "
          "answers to it.")
          .Default("the scenario file's name without `.toml`"));
  add(Key("run.rounds", FIELD(run.rounds), "50", "Rounds to commit. A resumed run may be given more.").Between(1, 1e9));
  add(Key("run.seed", FIELD(run.seed), "7",
          "Every draw of the run comes from it: initial weights, partition, cohorts, order of examples, dropout. The "
          "same seed gives the same model, bit for bit.")
          .AtLeast(0));
  add(Key("run.keep_models", FIELD(run.keep_models), "\"all\"",
          "Which committed models stay on disk: the newest alone, or every round's. The row of a removed model stays "
          "in the history.")
          .OneOf({"last", "all"}));
  add(Key("run.kernels", FIELD(run.kernels), "\"portable\"",
          "`native` kernels are the fastest for each machine, and unlike machines round differently. `portable` "
          "kernels give the same model, bit for bit, on any CPU, and take longer. The plan carries it to every client; "
          "`--kernels` sets it.")
          .OneOf({"native", "portable"}));
  add(Key("run.cache_megabytes", FIELD(run.cache_megabytes), "0",
          "Memory for examples that have been decoded, of a simulation's clients and of the test set, which need not "
          "be "
          "decoded again: first come, first kept. Changes no bit. A resumed run may be given another.")
          .Between(0, 1 << 20));

  add(Key("model.preset", FIELD(model.preset), "\"mlp\"",
          "A model by name, such as `logistic_regression`, `mlp`, `mnist_cnn`, `cifar_cnn`, `resnet20`, `char_lstm`; "
          "[models.md](models.md) lists them. Exactly one of `model.preset`, `model.graph`, `model.onnx` and "
          "`[[model.layers]]` is given."));
  add(Key("model.graph", FIELD(model.graph), "\"model.pb\"",
          "A model as a file: a `GraphDef` with variables and an `init` node. Clients need no new program for it.")
          .Path());
  add(Key("model.onnx", FIELD(model.onnx), "\"model.onnx\"",
          "A model as an ONNX file, trained from the weights that it holds; [onnx.md](onnx.md). Initializers are the "
          "variables.")
          .Path());
  add(ForGraph(Key("model.loss", FIELD(model.loss), "\"mean_loss\"",
                   "Tensor of the graph that training minimises: a scalar, the mean over the batch.")));
  add(ForGraph(Key("model.metrics", FIELD(model.metrics), "[\"accuracy\", \"top5\"]",
                   "Tensors of the graph that evaluation reports as `test/NAME`: scalars, means over the batch.")));
  add(ForGraph(Key("model.image_input", FIELD(model.image_input), "\"x\"",
                   "Placeholder of the graph that `data.image_feature` is fed to.")));
  add(ForGraph(Key("model.label_input", FIELD(model.label_input), "\"y\"",
                   "Placeholder of the graph that `data.label_feature` is fed to.")));

  add(Key("model.layers", FIELD(model.layers), "[{ type = \"flatten\" }, { type = \"dense\", units = 10 }]",
          "A model as a list of layers, each a table `[[model.layers]]`; [models.md](models.md) has the types and "
          "their keys.")
          .Default("none"));
  add(Key("model.classes", FIELD(model.classes), "62", "Classes of a preset. 0: the preset's own.")
          .Between(0, 1e6)
          .When("model.preset", HasPreset, "model.preset is given"));
  add(Key("model.normalization", FIELD(model.normalization), "\"group\"",
          "Normalisation after each convolution: over the batch, of 8 groups of channels of each example, or none. "
          "Running statistics of `batch` are averaged over clients like weights.")
          .OneOf({"", "batch", "group", "none"})
          .Default("`\"batch\"`")
          .When("model.preset", IsNormalized, "model.preset is \"resnet8\", \"resnet20\" or \"mobilenet_v2\""));
  add(Key("model.objective", FIELD(model.objective), "\"mse\"",
          "What training minimises, the last layer giving one score per class: `sparse_softmax_cross_entropy`; "
          "`sigmoid_cross_entropy` and `mse` of all scores against 1 for the label's class and 0 for the others.")
          .OneOf({"sparse_softmax_cross_entropy", "sigmoid_cross_entropy", "mse"})
          .When("model.layers", HasLayersOrOnnx, "model.layers or model.onnx is given"));
  add(Key("model.freeze", FIELD(model.freeze), "[\"conv1/*\"]",
          "Variables that keep their first values: names, in which `*` stands for any characters. They cost no "
          "gradient, and are neither sent up nor aggregated.")
          .Default("`[]`"));

  add(Key("model.input.shape", FIELD(model.input.shape), "[32, 32, 3]",
          "Shape of one example: height, width and channels of an image, length of a text, number of values.")
          .Between(1, 1e9)
          .Default("the preset's or the ONNX model's own; required for `model.layers`")
          .When("model.graph", HasNoGraph, "model.graph is not given"));
  add(Key("model.input.kind", FIELD(model.input.kind), "\"values\"",
          "What an example's feature holds: `pixels` are bytes, of which the model sees byte / 255; `values` are "
          "floats; `tokens` are integers below the vocabulary of the first `embedding`.")
          .OneOf({"pixels", "values", "tokens"})
          .When("model.layers", HasLayersOrOnnx, "model.layers or model.onnx is given"));
  add(Key("data.train", FIELD(data.train), "\"mnist/train.tfrecord\"",
          "TFRecord file of `tf.train.Example` that the clients of a simulation share out.")
          .Path()
          .Default("none; with `data.synth.kind` a file under `data/` beside the scenario"));
  add(Key("data.test", FIELD(data.test), "\"mnist/test.tfrecord\"",
          "TFRecord file for central evaluation. Empty: no central evaluation.")
          .Path()
          .Default("none; with `data.synth.kind` `test.tfrecord` beside `data.train`"));
  add(Key("data.image_feature", FIELD(data.image_feature), "\"pixels\"",
          "Feature with the input. Of images one byte a pixel, as many as the model's input has elements; the model "
          "sees pixel / 255. Of text the characters' numbers, one `int64` each.")
          .Default("the model's: `image`, or `tokens` for text"));
  add(Key("data.label_feature", FIELD(data.label_feature), "\"digit\"",
          "Feature with the class: one `int64`, from 0 to the model's classes less one; of text one a position."));

  add(Key("data.partition.kind", FIELD(data.partition.kind), "\"shards\"",
          "How the training data is divided into clients: `iid` shuffles and deals evenly; `shards` sorts by label, "
          "cuts, and deals each client a few cuts (McMahan et al. 2017); `dirichlet` draws each client's label "
          "proportions (Hsu et al. 2019); `by_key` makes a client of every value of a feature.")
          .OneOf({"iid", "shards", "dirichlet", "by_key"}));
  add(Key("data.partition.clients", FIELD(data.partition.clients), "100",
          "How many clients there are. Under `by_key` a cap: the first so many keys in byte order, and 0 takes every "
          "key. `up --clients N` sets it.")
          .Between(0, 1e8)
          .Default("0, which only `by_key` allows"));
  add(Key("data.partition.shards_per_client", FIELD(data.partition.shards_per_client), "3",
          "Cuts dealt to each client.")
          .Between(1, 1e6)
          .When("data.partition.kind", IsShards, "data.partition.kind is \"shards\""));
  add(Key("data.partition.alpha", FIELD(data.partition.alpha), "0.1",
          "Concentration of the Dirichlet distribution: small makes clients unlike, large alike.")
          .Above(0)
          .When("data.partition.kind", IsDirichlet, "data.partition.kind is \"dirichlet\""));
  add(Key("data.partition.key", FIELD(data.partition.key), "\"author\"", "Feature whose values are the clients.")
          .When("data.partition.kind", IsByKey, "data.partition.kind is \"by_key\""));

  add(Key("data.synth.kind", FIELD(data.synth.kind), "\"digits\"",
          "Data generated on first use, when `data.train` does not exist: `digits` renders handwritten-like digits by "
          "writers with habits of their own (feature `writer`).")
          .OneOf({"", "digits"}));
  add(ForSynth(
      Key("data.synth.writers", FIELD(data.synth.writers), "50", "Writers of the training file.").Between(1, 1e6)));
  add(ForSynth(Key("data.synth.test_writers", FIELD(data.synth.test_writers), "10",
                   "Writers of the test file, none of whom wrote for training.")
                   .Between(1, 1e6)));
  add(ForSynth(
      Key("data.synth.examples_per_writer", FIELD(data.synth.examples_per_writer), "30", "Digits by each writer.")
          .Between(1, 1e6)));
  add(ForSynth(
      Key("data.synth.seed", FIELD(data.synth.seed), "2", "Decides the generated data, whatever `run.seed` is.")
          .AtLeast(0)));

  add(Key("client.epochs", FIELD(client.epochs), "5", "Passes over its own data that a client makes for one update.")
          .Between(1, 1e6));
  add(Key("client.batch_size", FIELD(client.batch_size), "32",
          "Examples per step; an epoch's last batch is as small as what is left.")
          .Between(1, 1 << 20)
          .When("client.input_graph", HasNoInputGraph, "client.input_graph is not given"));
  add(Key("client.shuffle", FIELD(client.shuffle), "false",
          "Draws a new order of the client's examples for every epoch; otherwise they are taken in stored order.")
          .When("client.input_graph", HasNoInputGraph, "client.input_graph is not given"));
  add(Key("client.input_graph", FIELD(client.input_graph), "\"input.pb\"",
          "An input pipeline as a file: a `GraphDef` of dataset ops over `BoundDataset(name = \"train\")`, whose node "
          "`batches` gives the batches of one epoch. It travels in the plan, and clients run it over their own decoded "
          "examples instead of the order and the batches that `client.shuffle` and `client.batch_size` ask for; "
          "[data.md](data.md) has an example.")
          .Path());

  add(Key("client.precision", FIELD(client.precision), "\"bfloat16\"",
          "What products and convolutions compute in. Below `float32`, variables and their updates stay float32 "
          "(master weights), and so do losses, means and norms. `bfloat16` is fast where the CPU multiplies it, and "
          "emulated with the same roundings elsewhere; `float16` is always emulated. docs/precision.md says more.")
          .OneOf({"float32", "bfloat16", "float16"}));

  add(Key("client.optimizer.kind", FIELD(client.optimizer.kind), "\"momentum\"",
          "Local update rule; what it remembers starts anew in every task and leaves with it. `sgd`; `momentum` (also "
          "Nesterov's); `adagrad`, `adadelta`, `adam` and `adamw` as PyTorch has them; `rmsprop` as TensorFlow's op "
          "(epsilon under the root); `yogi` as its paper.")
          .OneOf({"sgd", "momentum", "adagrad", "rmsprop", "adam", "adamw", "adadelta", "yogi"}));
  add(Key("client.optimizer.learning_rate", FIELD(client.optimizer.learning_rate), "0.215", "Step length of a client.")
          .Between(0, 1e6));
  add(ForKinds(Key("client.optimizer.momentum", FIELD(client.optimizer.momentum), "0.5",
                   "Share of the velocity that survives a step: v = momentum · v + g, w = w − learning_rate · v.")
                   .AtLeast(0)
                   .Below(1)
                   .Default("`0.9`; `rmsprop`: `0.0`"),
               HasMomentum, "\"momentum\" or \"rmsprop\""));
  add(ForKinds(Key("client.optimizer.nesterov", FIELD(client.optimizer.nesterov), "true",
                   "Looks ahead: w = w − learning_rate · (g + momentum · v)."),
               IsMomentum, "\"momentum\""));
  add(ForKinds(Key("client.optimizer.rho", FIELD(client.optimizer.rho), "0.99",
                   "Share of the mean square of gradients that survives a step.")
                   .AtLeast(0)
                   .Below(1),
               HasRho, "\"rmsprop\" or \"adadelta\""));
  add(ForKinds(Key("client.optimizer.centered", FIELD(client.optimizer.centered), "true",
                   "Divides by the gradients' deviation instead of their root mean square."),
               IsRmsProp, "\"rmsprop\""));
  add(ForKinds(Key("client.optimizer.beta1", FIELD(client.optimizer.beta1), "0.8",
                   "Share of the mean gradient that survives a step.")
                   .AtLeast(0)
                   .Below(1),
               HasBetas, "\"adam\", \"adamw\" or \"yogi\""));
  add(ForKinds(Key("client.optimizer.beta2", FIELD(client.optimizer.beta2), "0.99",
                   "Share of the mean square of gradients that survives a step.")
                   .AtLeast(0)
                   .Below(1),
               HasBetas, "\"adam\", \"adamw\" or \"yogi\""));
  add(ForKinds(Key("client.optimizer.epsilon", FIELD(client.optimizer.epsilon), "0.001",
                   "Keeps quotients finite; larger values adapt less.")
                   .Above(0)
                   .Below(1e6)
                   .Default("`adam`, `adamw`: `1e-08`; `adagrad`: `1e-10`; `rmsprop`: `1e-07`; `adadelta`: `1e-06`; "
                            "`yogi`: `0.001`"),
               IsAdaptive, "none of \"sgd\" and \"momentum\""));
  add(ForKinds(Key("client.optimizer.initial_accumulator", FIELD(client.optimizer.initial_accumulator), "0.1",
                   "What the sums of squares start with in every task.")
                   .Between(0, 1e6)
                   .Default("`adagrad`: `0.0`; `yogi`: `1e-06`"),
               HasAccumulator, "\"adagrad\" or \"yogi\""));
  add(Key("client.optimizer.weight_decay", FIELD(client.optimizer.weight_decay), "0.0001",
          "Adds weight_decay · w to the gradient, after clipping; `adamw` instead multiplies w by 1 − learning_rate · "
          "weight_decay in every step.")
          .Between(0, 1e6)
          .Default("`0.0`; `adamw`: `0.01`"));
  add(Key("client.optimizer.clip_norm", FIELD(client.optimizer.clip_norm), "1.0",
          "Shortens a step's gradient, all variables together, to this length. 0: no bound.")
          .Between(0, 1e6));
  add(Key("client.optimizer.clip_value", FIELD(client.optimizer.clip_value), "0.5",
          "Bounds each element of a step's gradient, before `clip_norm`. 0: no bound.")
          .Between(0, 1e6));

  add(Key("client.loss_scale.kind", FIELD(client.loss_scale.kind), "\"dynamic\"",
          "Multiplies the loss before it is differentiated and divides the gradients by the same, so that small ones "
          "survive in 16 bits; a step whose gradients are not all finite changes nothing. `dynamic` halves the scale "
          "after such a step and doubles it after `client.loss_scale.growth_steps` good ones. `float16` needs it, "
          "`bfloat16` seldom.")
          .OneOf({"none", "static", "dynamic"}));
  add(Key("client.loss_scale.scale", FIELD(client.loss_scale.scale), "1024.0",
          "The scale; where it is dynamic, that with which every task begins. A power of two rounds nothing.")
          .Between(1, 1 << 24)
          .When("client.loss_scale.kind", HasLossScale, "client.loss_scale.kind is not \"none\""));
  add(Key("client.loss_scale.growth_steps", FIELD(client.loss_scale.growth_steps), "100",
          "Good steps in a row after which the scale doubles.")
          .Between(1, 1e9)
          .When("client.loss_scale.kind", ScalesDynamically, "client.loss_scale.kind is \"dynamic\""));

  add(Key("client.schedule.kind", FIELD(client.schedule.kind), "\"cosine\"",
          "What becomes of the learning rate after warm-up: `step` multiplies it by `decay_rate` after every `length`; "
          "`exponential` does so gradually; `cosine` and `polynomial` go to `end` within `length` and stay there.")
          .OneOf({"constant", "step", "exponential", "cosine", "polynomial"}));
  add(Key("client.schedule.warmup", FIELD(client.schedule.warmup), "5",
          "Units over which the learning rate rises in equal steps; the first has learning_rate / warmup.")
          .Between(0, 1e9));
  add(Key("client.schedule.unit", FIELD(client.schedule.unit), "\"step\"",
          "What time is counted in: `round`s of the run, or `step`s of a task, from 0 in each.")
          .OneOf({"round", "step"})
          .When("client.schedule.kind", IsScheduled,
                "client.schedule.kind is not \"constant\" or client.schedule.warmup is given"));
  add(ForSchedule(Key("client.schedule.length", FIELD(client.schedule.length), "100", "Units that the decay takes.")
                      .Between(1, 1e9)
                      .Default("`run.rounds`"),
                  Decays, "not \"constant\""));
  add(ForSchedule(Key("client.schedule.decay_rate", FIELD(client.schedule.decay_rate), "0.1",
                      "What remains of the learning rate after each `length`.")
                      .Above(0)
                      .Below(1e6),
                  DecaysByRate, "\"step\" or \"exponential\""));
  add(ForSchedule(Key("client.schedule.end", FIELD(client.schedule.end), "0.01",
                      "Share of the learning rate that is left at the end.")
                      .Between(0, 1e6),
                  DecaysToEnd, "\"cosine\" or \"polynomial\""));
  add(ForSchedule(Key("client.schedule.power", FIELD(client.schedule.power), "2.0",
                      "The rate falls with (1 − t / length)^power; 1 is a straight line.")
                      .Above(0)
                      .Below(100),
                  IsPolynomial, "\"polynomial\""));

  add(Key("server.algorithm", FIELD(server.algorithm), "\"fedavg\"",
          "Name of a composition. `fedavg`: uniform selection, plain deltas, mean weighted by examples (McMahan et al. "
          "2017).")
          .OneOf({"fedavg"}));
  add(Key("server.clients_per_round", FIELD(server.clients_per_round), "20", "Clients drawn for each round.")
          .Between(1, 1e6));
  add(Key("server.min_clients", FIELD(server.min_clients), "15",
          "Names that must be known before the first selection. 0: as many as `data.partition.clients`, or every key.")
          .Between(0, 1e8));
  add(Key("server.min_reports", FIELD(server.min_reports), "8",
          "Updates that a round commits with when its deadline passes; with fewer the attempt is abandoned. 0: all of "
          "`server.clients_per_round`.")
          .Between(0, 1e6));
  add(Key("server.deadline", FIELD(server.deadline_seconds), "120.0", "Seconds that a client has for its task.")
          .Above(0)
          .Below(1e9));
  add(Key("server.max_attempts", FIELD(server.max_attempts), "5", "Attempts at one round before the run fails.")
          .Between(1, 1e6));
  add(Key("server.learning_rate", FIELD(server.learning_rate), "0.5",
          "The new model is the old one plus learning_rate × the mean delta.")
          .Between(0, 1e6));
  add(Key("server.max_weight", FIELD(server.max_weight), "100000",
          "Largest weight of one update, in examples; a larger one is refused. Together with `server.value_bits` and "
          "`server.clients_per_round` it decides the resolution of the sum.")
          .Between(1, (1 << 29) - 1));
  add(Key("server.value_bits", FIELD(server.value_bits), "12",
          "Largest magnitude in a delta, as a power of two; an update beyond 2^value_bits is refused. Below 0 for "
          "updates known to be small, whose sum is then as much finer.")
          .Between(-30, 30));
  add(Key("server.staging_megabytes", FIELD(server.staging_megabytes), "128",
          "Uploads held in memory while they arrive; beyond it they wait in an unlinked file.")
          .Between(1, 1 << 20));

  add(Key("evaluation.every", FIELD(evaluation.every), "10",
          "Rounds between central evaluations on `data.test`; the last round is always evaluated. 0: never.")
          .Between(0, 1e9));
  add(Key("evaluation.batch_size", FIELD(evaluation.batch_size), "500",
          "Examples evaluated at once; bounds memory. The figures are means over all examples.")
          .Between(1, 1 << 20));
  return keys;
}

}  // namespace

const std::vector<Key>& Keys() {
  static const auto* const keys = new std::vector<Key>(MakeKeys());
  return *keys;
}

}  // namespace rivulet::scenario

namespace rivulet {

const std::vector<ScenarioKey>& ScenarioKeys() {
  static const auto* const keys = [] {
    auto* all = new std::vector<ScenarioKey>;
    for (const scenario::Key& key : scenario::Keys()) all->push_back(key.Public());
    return all;
  }();
  return *keys;
}

std::string ScenarioReference() {
  std::string page;
  std::string_view section;
  for (const scenario::Key& key : scenario::Keys()) {
    const ScenarioKey shown = key.Public();
    if (key.section() != section) {
      section = key.section();
      page += fmt::format(
          "\n## [{}]\n\n| key | type | default | allowed | meaning | example |\n|---|---|---|---|---|---|\n", section);
    }
    const std::string when = shown.applies_when.empty() ? "" : fmt::format(" Only when {}.", shown.applies_when);
    page += fmt::format("| `{}` | {} | {} | {} | {}{} | `{} = {}` |\n", shown.name, shown.type, shown.default_value,
                        shown.allowed.empty() ? "any" : shown.allowed, shown.doc, when, key.leaf(), shown.example);
  }
  return page;
}

}  // namespace rivulet
