// [client]: what a client does with a task.
#include "federated/scenario/keys.h"

namespace rivulet::scenario {
namespace {

bool HasNoInputGraph(const Scenario& s) { return s.client.input_graph.empty(); }
bool HasLossScale(const Scenario& s) { return s.client.loss_scale.kind != "none"; }
bool ScalesDynamically(const Scenario& s) { return s.client.loss_scale.kind == "dynamic"; }
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
Key&& ForKinds(Key&& key, bool (*predicate)(const Scenario&), std::string_view kinds) {
  return std::move(key).When("client.optimizer.kind", predicate, fmt::format("client.optimizer.kind is {}", kinds));
}
Key&& ForSchedule(Key&& key, bool (*predicate)(const Scenario&), std::string_view kinds) {
  return std::move(key).When("client.schedule.kind", predicate, fmt::format("client.schedule.kind is {}", kinds));
}

}  // namespace

std::vector<Key> ClientKeys() {
  return {
      Key("client.epochs", RIVULET_FIELD(client.epochs), "5",
          "Passes over its own data that a client makes for one update.")
          .Between(1, 1e6),
      Key("client.batch_size", RIVULET_FIELD(client.batch_size), "32",
          "Examples per step; an epoch's last batch is as small as what is left.")
          .Between(1, 1 << 20)
          .When("client.input_graph", HasNoInputGraph, "client.input_graph is not given"),
      Key("client.shuffle", RIVULET_FIELD(client.shuffle), "false",
          "Draws a new order of the client's examples for every epoch; otherwise they are taken in stored order.")
          .When("client.input_graph", HasNoInputGraph, "client.input_graph is not given"),
      Key("client.input_graph", RIVULET_FIELD(client.input_graph), "\"input.pb\"",
          "An input pipeline as a file: a `GraphDef` of dataset ops over `BoundDataset(name = \"train\")`, whose node "
          "`batches` gives the batches of one epoch. It travels in the plan, and clients run it over their own decoded "
          "examples instead of the order and the batches that `client.shuffle` and `client.batch_size` ask for; "
          "[data.md](data.md) has an example.")
          .Path(),
      Key("client.precision", RIVULET_FIELD(client.precision), "\"bfloat16\"",
          "What products and convolutions compute in. Below `float32`, variables and their updates stay float32 "
          "(master weights), and so do losses, means and norms. `bfloat16` is fast where the CPU multiplies it, and "
          "emulated with the same roundings elsewhere; `float16` is always emulated. docs/precision.md says more.")
          .OneOf({"float32", "bfloat16", "float16"}),
      Key("client.optimizer.kind", RIVULET_FIELD(client.optimizer.kind), "\"momentum\"",
          "Local update rule; what it remembers starts anew in every task and leaves with it. `sgd`; `momentum` (also "
          "Nesterov's); `adagrad`, `adadelta`, `adam` and `adamw` as PyTorch has them; `rmsprop` as TensorFlow's op "
          "(epsilon under the root); `yogi` as its paper.")
          .OneOf({"sgd", "momentum", "adagrad", "rmsprop", "adam", "adamw", "adadelta", "yogi"}),
      Key("client.optimizer.learning_rate", RIVULET_FIELD(client.optimizer.learning_rate), "0.215",
          "Step length of a client.")
          .Between(0, 1e6),
      ForKinds(Key("client.optimizer.momentum", RIVULET_FIELD(client.optimizer.momentum), "0.5",
                   "Share of the velocity that survives a step: v = momentum · v + g, w = w − learning_rate · v.")
                   .AtLeast(0)
                   .Below(1)
                   .Default("`0.9`; `rmsprop`: `0.0`"),
               HasMomentum, "\"momentum\" or \"rmsprop\""),
      ForKinds(Key("client.optimizer.nesterov", RIVULET_FIELD(client.optimizer.nesterov), "true",
                   "Looks ahead: w = w − learning_rate · (g + momentum · v)."),
               IsMomentum, "\"momentum\""),
      ForKinds(Key("client.optimizer.rho", RIVULET_FIELD(client.optimizer.rho), "0.99",
                   "Share of the mean square of gradients that survives a step.")
                   .AtLeast(0)
                   .Below(1),
               HasRho, "\"rmsprop\" or \"adadelta\""),
      ForKinds(Key("client.optimizer.centered", RIVULET_FIELD(client.optimizer.centered), "true",
                   "Divides by the gradients' deviation instead of their root mean square."),
               IsRmsProp, "\"rmsprop\""),
      ForKinds(Key("client.optimizer.beta1", RIVULET_FIELD(client.optimizer.beta1), "0.8",
                   "Share of the mean gradient that survives a step.")
                   .AtLeast(0)
                   .Below(1),
               HasBetas, "\"adam\", \"adamw\" or \"yogi\""),
      ForKinds(Key("client.optimizer.beta2", RIVULET_FIELD(client.optimizer.beta2), "0.99",
                   "Share of the mean square of gradients that survives a step.")
                   .AtLeast(0)
                   .Below(1),
               HasBetas, "\"adam\", \"adamw\" or \"yogi\""),
      ForKinds(Key("client.optimizer.epsilon", RIVULET_FIELD(client.optimizer.epsilon), "0.001",
                   "Keeps quotients finite; larger values adapt less.")
                   .Above(0)
                   .Below(1e6)
                   .Default("`adam`, `adamw`: `1e-08`; `adagrad`: `1e-10`; `rmsprop`: `1e-07`; `adadelta`: `1e-06`; "
                            "`yogi`: `0.001`"),
               IsAdaptive, "none of \"sgd\" and \"momentum\""),
      ForKinds(Key("client.optimizer.initial_accumulator", RIVULET_FIELD(client.optimizer.initial_accumulator), "0.1",
                   "What the sums of squares start with in every task.")
                   .Between(0, 1e6)
                   .Default("`adagrad`: `0.0`; `yogi`: `1e-06`"),
               HasAccumulator, "\"adagrad\" or \"yogi\""),
      Key("client.optimizer.weight_decay", RIVULET_FIELD(client.optimizer.weight_decay), "0.0001",
          "Adds weight_decay · w to the gradient, after clipping; `adamw` instead multiplies w by 1 − learning_rate · "
          "weight_decay in every step.")
          .Between(0, 1e6)
          .Default("`0.0`; `adamw`: `0.01`"),
      Key("client.optimizer.clip_norm", RIVULET_FIELD(client.optimizer.clip_norm), "1.0",
          "Shortens a step's gradient, all variables together, to this length. 0: no bound.")
          .Between(0, 1e6),
      Key("client.optimizer.clip_value", RIVULET_FIELD(client.optimizer.clip_value), "0.5",
          "Bounds each element of a step's gradient, before `clip_norm`. 0: no bound.")
          .Between(0, 1e6),
      Key("client.loss_scale.kind", RIVULET_FIELD(client.loss_scale.kind), "\"dynamic\"",
          "Multiplies the loss before it is differentiated and divides the gradients by the same, so that small ones "
          "survive in 16 bits; a step whose gradients are not all finite changes nothing. `dynamic` halves the scale "
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
          "What becomes of the learning rate after warm-up: `step` multiplies it by `decay_rate` after every `length`; "
          "`exponential` does so gradually; `cosine` and `polynomial` go to `end` within `length` and stay there.")
          .OneOf({"constant", "step", "exponential", "cosine", "polynomial"}),
      Key("client.schedule.warmup", RIVULET_FIELD(client.schedule.warmup), "5",
          "Units over which the learning rate rises in equal steps; the first has learning_rate / warmup.")
          .Between(0, 1e9),
      Key("client.schedule.unit", RIVULET_FIELD(client.schedule.unit), "\"step\"",
          "What time is counted in: `round`s of the run, or `step`s of a task, from 0 in each.")
          .OneOf({"round", "step"})
          .When("client.schedule.kind", IsScheduled,
                "client.schedule.kind is not \"constant\" or client.schedule.warmup is given"),
      ForSchedule(
          Key("client.schedule.length", RIVULET_FIELD(client.schedule.length), "100", "Units that the decay takes.")
              .Between(1, 1e9)
              .Default("`run.rounds`"),
          Decays, "not \"constant\""),
      ForSchedule(Key("client.schedule.decay_rate", RIVULET_FIELD(client.schedule.decay_rate), "0.1",
                      "What remains of the learning rate after each `length`.")
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
}

}  // namespace rivulet::scenario
