// [client]: what a client does with a task.

#include <algorithm>
#include <functional>

#include "engine/base/join.h"
#include "engine/optimizers/settings/optimizer_settings.h"
#include "federated/scenario/keys.h"

namespace rivulet::scenario {
namespace {

bool HasNoInputGraph(const Scenario& s) { return s.client.input_graph.empty(); }
bool HasLossScale(const Scenario& s) { return s.client.loss_scale.kind != "none"; }
bool ScalesDynamically(const Scenario& s) { return s.client.loss_scale.kind == "dynamic"; }
bool IsScheduled(const Scenario& s) { return s.client.schedule.kind != "constant" || s.client.schedule.warmup > 0; }
bool Decays(const Scenario& s) { return s.client.schedule.kind != "constant"; }
bool DecaysByRate(const Scenario& s) {
  return s.client.schedule.kind == "step" || s.client.schedule.kind == "exponential";
}
bool DecaysToEnd(const Scenario& s) {
  return s.client.schedule.kind == "cosine" || s.client.schedule.kind == "polynomial";
}
bool IsPolynomial(const Scenario& s) { return s.client.schedule.kind == "polynomial"; }

// `"adam", "adamw" or "yogi"`
std::string Alternatives(const std::vector<std::string>& kinds) {
  std::string list;
  for (size_t i = 0; i < kinds.size(); ++i)
    list += fmt::format("{}\"{}\"", i == 0 ? "" : i + 1 == kinds.size() ? " or " : ", ", kinds[i]);
  return list;
}

// What a setting is by default: that of most kinds first and without their names.
std::string UsualInWords(std::string_view name, size_t kinds_with_it) {
  std::vector<std::pair<std::string, std::vector<std::string>>> usual;  // the default as TOML, and whose it is
  for (const OptimizerTable& table : OptimizerTables()) {
    const Setting* setting = FindSetting(table.settings, name);
    if (setting == nullptr) continue;
    const std::string value = ToToml(*setting->default_value);
    auto same = std::ranges::find_if(usual, [&](const auto& each) { return each.first == value; });
    if (same == usual.end()) same = usual.insert(usual.end(), {value, {}});
    same->second.push_back(fmt::format("`{}`", table.name));
  }
  std::ranges::stable_sort(usual, std::greater(), [](const auto& each) { return each.second.size(); });
  std::string words;
  for (const auto& [value, kinds] : usual) {
    const bool most = words.empty() && 2 * kinds.size() > kinds_with_it;
    words +=
        fmt::format("{}{}`{}`", words.empty() ? "" : "; ", most ? "" : fmt::format("{}: ", Join(kinds, ", ")), value);
  }
  return words;
}

// A key of one of the optimisers' settings. Its range, its meaning, the kinds that have it and what is usual for each
// are the engine's; said here is only where the value lives.
Key OfOptimizer(std::string_view name, Field field, std::string example) {
  Setting setting;
  std::vector<std::string> kinds;
  for (const OptimizerTable& table : OptimizerTables()) {
    const Setting* own = FindSetting(table.settings, name);
    if (own == nullptr) continue;
    setting = *own;
    kinds.push_back(table.name);
  }
  setting.example = std::move(example);
  setting.default_in_words = UsualInWords(name, kinds.size());
  Key key("client.optimizer", field, std::move(setting));
  if (kinds.size() == OptimizerTables().size()) return key;
  std::string words = fmt::format("client.optimizer.kind is {}", Alternatives(kinds));
  return std::move(key).When(
      "client.optimizer.kind",
      [kinds](const Scenario& s) { return std::ranges::find(kinds, s.client.optimizer.kind) != kinds.end(); },
      std::move(words));
}

std::vector<std::string> OptimizerNames() {
  std::vector<std::string> names;
  for (const OptimizerTable& table : OptimizerTables()) names.push_back(table.name);
  return names;
}

Key&& ForSchedule(Key&& key, bool (*predicate)(const Scenario&), std::string_view kinds) {
  return std::move(key).When("client.schedule.kind", predicate, fmt::format("client.schedule.kind is {}", kinds));
}

}  // namespace

std::vector<Key> ClientKeys() {
  std::vector<Key> keys = {
      Key("client.epochs", RIVULET_FIELD(client.epochs), "5",
          "Passes over its own data that a client makes for one update.")
          .Between(1, 1e6),
      Key("client.partial_work", RIVULET_FIELD(client.partial_work), "0.5",
          "Share of the tasks that are done in part, as on slow devices. Such a client draws its number of "
          "`client.epochs`, at least one and each number equally likely (Li et al. 2020, arXiv:1812.06127, section "
          "5.2).")
          .Between(0, 1)
          .When(
              "client.epochs", [](const Scenario& scenario) { return scenario.client.epochs > 1; },
              "client.epochs is above 1")
          .OfGraphs(),
      Key("client.frozen", RIVULET_FIELD(client.frozen), "[\"conv1/*=1..20\"]",
          "Variables that clients do not train in some rounds, a `PATTERN=FROM..UNTIL` each. From round FROM to "
          "UNTIL, both included, the gradient of every variable whose name matches is zero; without UNTIL from then "
          "on. `*` stands for any characters. Other than `model.freeze`, which keeps first values for good.")
          .OfGraphs(),
      Key("client.batch_size", RIVULET_FIELD(client.batch_size), "32",
          "Examples per step; an epoch's last batch may be smaller.")
          .Between(1, 1 << 20)
          .When("client.input_graph", HasNoInputGraph, "client.input_graph is not given"),
      Key("client.shuffle", RIVULET_FIELD(client.shuffle), "false",
          "Draws a new order of the client's examples for every epoch; otherwise they are taken in stored order.")
          .When("client.input_graph", HasNoInputGraph, "client.input_graph is not given"),
      Key("client.input_graph", RIVULET_FIELD(client.input_graph), "\"input.pb\"",
          "An input pipeline as a file: a `GraphDef` of dataset ops over `BoundDataset(name = \"train\")`, whose node "
          "`batches` gives the batches of one epoch. It travels in the plan, and clients run it over their own "
          "decoded examples, in the place of `client.shuffle` and `client.batch_size`; [own "
          "data](../guide/own-data.md) has an example.")
          .Path(),
      Key("client.precision", RIVULET_FIELD(client.precision), "\"bfloat16\"",
          "Number format of products and convolutions. Below `float32`, variables and their updates stay float32 "
          "(master weights), and so do losses, means and norms. `bfloat16` is fast where the CPU multiplies it, and "
          "emulated with the same roundings elsewhere; `float16` is always emulated. docs/reference/precision.md says "
          "more.")
          .OneOf({"float32", "bfloat16", "float16"}),
      Key("client.optimizer.kind", RIVULET_FIELD(client.optimizer.kind), "\"momentum\"",
          "Local update rule; its memory starts anew in every task. `sgd`; `momentum` (also Nesterov's); `adagrad`, "
          "`adadelta`, `adam` and `adamw` as PyTorch has them; `rmsprop` as TensorFlow's op (epsilon under the root); "
          "`yogi` as its paper.")
          .OneOf(OptimizerNames()),
      Key("client.optimizer.learning_rate", RIVULET_FIELD(client.optimizer.learning_rate), "0.215",
          "Step length of a client.")
          .Between(0, 1e6),
      OfOptimizer("momentum", RIVULET_FIELD(client.optimizer.momentum), "0.5"),
      OfOptimizer("nesterov", RIVULET_FIELD(client.optimizer.nesterov), "true"),
      OfOptimizer("rho", RIVULET_FIELD(client.optimizer.rho), "0.99"),
      OfOptimizer("centered", RIVULET_FIELD(client.optimizer.centered), "true"),
      OfOptimizer("beta1", RIVULET_FIELD(client.optimizer.beta1), "0.8"),
      OfOptimizer("beta2", RIVULET_FIELD(client.optimizer.beta2), "0.99"),
      OfOptimizer("epsilon", RIVULET_FIELD(client.optimizer.epsilon), "0.002"),
      OfOptimizer("initial_accumulator", RIVULET_FIELD(client.optimizer.initial_accumulator), "0.1"),
      OfOptimizer("weight_decay", RIVULET_FIELD(client.optimizer.weight_decay), "0.0001"),
      Key("client.optimizer.clip_norm", RIVULET_FIELD(client.optimizer.clip_norm), "1.0",
          "Shortens a step's gradient, all variables together, to this length. 0: no bound.")
          .Between(0, 1e6),
      Key("client.optimizer.clip_value", RIVULET_FIELD(client.optimizer.clip_value), "0.5",
          "Bounds each element of a step's gradient, before `clip_norm`. 0: no bound.")
          .Between(0, 1e6),
      Key("client.loss_scale.kind", RIVULET_FIELD(client.loss_scale.kind), "\"dynamic\"",
          "Multiplies the loss before it is differentiated and divides the gradients by the same, so that small ones "
          "survive in 16 bits. A step whose gradients are not all finite changes nothing. `dynamic` halves the scale "
          "after such a step and doubles it after `client.loss_scale.growth_steps` good ones. `float16` needs it, "
          "`bfloat16` seldom.")
          .OneOf({"none", "static", "dynamic"}),
      Key("client.loss_scale.scale", RIVULET_FIELD(client.loss_scale.scale), "1024.0",
          "The scale; where it is dynamic, that with which every task begins. A power of two rounds nothing.")
          .Between(1, 1 << 24)
          .When("client.loss_scale.kind", HasLossScale, "client.loss_scale.kind is not \"none\""),
      Key("client.loss_scale.growth_steps", RIVULET_FIELD(client.loss_scale.growth_steps), "100",
          "Good steps in a row after which the scale doubles.")
          .Between(1, 1e9)
          .When("client.loss_scale.kind", ScalesDynamically, "client.loss_scale.kind is \"dynamic\""),
      Key("client.schedule.kind", RIVULET_FIELD(client.schedule.kind), "\"cosine\"",
          "The learning rate after warm-up: `step` multiplies it by `decay_rate` after every `length`; `exponential` "
          "does so gradually; `cosine` and `polynomial` go to `end` within `length` and stay there.")
          .OneOf({"constant", "step", "exponential", "cosine", "polynomial"}),
      Key("client.schedule.warmup", RIVULET_FIELD(client.schedule.warmup), "5",
          "Units over which the learning rate rises in equal steps; the first has learning_rate / warmup.")
          .Between(0, 1e9),
      Key("client.schedule.unit", RIVULET_FIELD(client.schedule.unit), "\"step\"",
          "Unit of time: `round`s of the run, or `step`s of a task, from 0 in each.")
          .OneOf({"round", "step"})
          .When("client.schedule.kind", IsScheduled,
                "client.schedule.kind is not \"constant\" or client.schedule.warmup is given"),
      ForSchedule(
          Key("client.schedule.length", RIVULET_FIELD(client.schedule.length), "100", "Units that the decay takes.")
              .Between(1, 1e9)
              .Default("`run.rounds`"),
          Decays, "not \"constant\""),
      ForSchedule(Key("client.schedule.decay_rate", RIVULET_FIELD(client.schedule.decay_rate), "0.1",
                      "Factor of the learning rate after each `length`.")
                      .Above(0)
                      .Below(1e6),
                  DecaysByRate, "\"step\" or \"exponential\""),
      ForSchedule(Key("client.schedule.end", RIVULET_FIELD(client.schedule.end), "0.01",
                      "Share of the learning rate that is left at the end.")
                      .Between(0, 1e6),
                  DecaysToEnd, "\"cosine\" or \"polynomial\""),
      ForSchedule(Key("client.schedule.power", RIVULET_FIELD(client.schedule.power), "2.0",
                      "The rate falls with (1 − t / length)^power; 1 is a straight line.")
                      .Above(0)
                      .Below(100),
                  IsPolynomial, "\"polynomial\""),
  };
  // Clients that train in their own way are told these two, and decide everything else themselves.
  for (Key& key : keys) {
    if (key.name() != "client.epochs" && key.name() != "client.batch_size") std::move(key).OfGraphs();
  }
  return keys;
}

}  // namespace rivulet::scenario
