// [client]: a client's work in a task.
#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/optimizers/settings/optimizer_settings.h"
#include "federated/scenario/keys.h"
#include "federated/scenario/piece_keys.h"
#include "federated/settings/setting_tables.h"
#include "federated/settings/traits.h"

namespace rivulet::scenario {
namespace {

bool HasNoInputGraph(const Scenario& s) { return s.client.input_graph.empty(); }
bool IsScheduled(const Scenario& s) {
  return s.client.schedule.warmup > 0 || !HasTrait("schedule", s.client.schedule.kind, kKeepsRate);
}

// Optimisers belong to the engine, which does not know scenarios. The learning rate is a key for every kind.
[[maybe_unused]] const bool optimizers_are_registered = [] {
  ForEachOptimizerTable([](const OptimizerTable& optimizer) {
    std::vector<Setting> settings = optimizer.settings;
    std::erase_if(settings, [](const Setting& setting) { return setting.name == "learning_rate"; });
    SettingTableRegistration(
        {.kind = "optimizer", .name = optimizer.name, .settings = std::move(settings), .doc = optimizer.doc});
  });
  return true;
}();

std::vector<Key> TrainingKeys() {
  return {
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
  };
}

std::vector<Key> OptimizerKeys() {
  std::vector<Key> keys = {
      Key("client.optimizer.kind", RIVULET_FIELD(client.optimizer.kind), "\"momentum\"",
          fmt::format("Local update rule. Its memory starts empty in every task. {}", PiecesInWords("optimizer")))
          .OneOf(SettingTableNames("optimizer")),
      Key("client.optimizer.learning_rate", RIVULET_FIELD(client.optimizer.learning_rate), "0.215",
          "Step length of a client.")
          .Between(0, 1e6),
  };
  std::ranges::move(OptionKeys({.section = "client.optimizer",
                                .kind = "optimizer",
                                .selector = "client.optimizer.kind",
                                .chosen = [](const Scenario& scenario) { return scenario.client.optimizer.kind; },
                                .settings = RIVULET_FIELD(client.optimizer.settings)}),
                    std::back_inserter(keys));
  std::vector<Key> clipping = {
      Key("client.optimizer.clip_norm", RIVULET_FIELD(client.optimizer.clip_norm), "1.0",
          "Shortens a step's gradient, all variables together, to this length. 0: no bound.")
          .Between(0, 1e6),
      Key("client.optimizer.clip_value", RIVULET_FIELD(client.optimizer.clip_value), "0.5",
          "Bounds each element of a step's gradient, before `clip_norm`. 0: no bound.")
          .Between(0, 1e6),
  };
  std::ranges::move(clipping, std::back_inserter(keys));
  return keys;
}

std::vector<Key> LossScaleKeys() {
  std::vector<Key> keys = {
      Key("client.loss_scale.kind", RIVULET_FIELD(client.loss_scale.kind), "\"dynamic\"",
          fmt::format("Multiplies the loss before it is differentiated and divides the gradients by the same, so that "
                      "small ones survive in 16 bits. A step whose gradients are not all finite changes nothing. {} "
                      "`float16` needs it, `bfloat16` seldom.",
                      PiecesInWords("loss scale")))
          .OneOf(SettingTableNames("loss scale")),
  };
  std::ranges::move(OptionKeys({.section = "client.loss_scale",
                                .kind = "loss scale",
                                .selector = "client.loss_scale.kind",
                                .chosen = [](const Scenario& scenario) { return scenario.client.loss_scale.kind; },
                                .settings = RIVULET_FIELD(client.loss_scale.settings)}),
                    std::back_inserter(keys));
  return keys;
}

std::vector<Key> ScheduleKeys() {
  std::vector<Key> keys = {
      Key("client.schedule.kind", RIVULET_FIELD(client.schedule.kind), "\"cosine\"",
          fmt::format("The learning rate after warm-up. {}", PiecesInWords("schedule")))
          .OneOf(SettingTableNames("schedule")),
      Key("client.schedule.warmup", RIVULET_FIELD(client.schedule.warmup), "5",
          "Units over which the learning rate rises in equal steps; the first has learning_rate / warmup.")
          .Between(0, 1e9),
      Key("client.schedule.unit", RIVULET_FIELD(client.schedule.unit), "\"step\"",
          "Unit of time: `round`s of the run, or `step`s of a task, from 0 in each.")
          .OneOf({"round", "step"})
          .When("client.schedule.kind", IsScheduled,
                fmt::format("client.schedule.kind is not {} or client.schedule.warmup is given",
                            AnyOf(NamesWithTrait("schedule", kKeepsRate)))),
  };
  std::ranges::move(OptionKeys({.section = "client.schedule",
                                .kind = "schedule",
                                .selector = "client.schedule.kind",
                                .chosen = [](const Scenario& scenario) { return scenario.client.schedule.kind; },
                                .settings = RIVULET_FIELD(client.schedule.settings)}),
                    std::back_inserter(keys));
  return keys;
}

}  // namespace

std::vector<Key> ClientKeys() {
  std::vector<Key> keys;
  for (const auto section : {TrainingKeys, OptimizerKeys, LossScaleKeys, ScheduleKeys})
    std::ranges::move(section(), std::back_inserter(keys));
  // Clients with external training receive only these two values, and decide everything else themselves.
  for (Key& key : keys) {
    if (key.name() != "client.epochs" && key.name() != "client.batch_size") std::move(key).OfGraphs();
  }
  return keys;
}

}  // namespace rivulet::scenario
