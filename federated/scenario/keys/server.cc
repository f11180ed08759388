// [server]: cohorts, attempts, and processing of updates.
#include <algorithm>
#include <iterator>

#include "federated/scenario/keys.h"
#include "federated/scenario/piece_keys.h"
#include "federated/settings/setting_tables.h"
#include "federated/settings/traits.h"

namespace rivulet::scenario {
namespace {

bool FineTunes(const Scenario& s) { return !s.server.fine_tune.data.empty(); }
bool StacksAdapters(const Scenario& s) { return s.server.lora == "stack"; }
bool SumsPlainly(const Scenario& s) { return !s.secure.on(); }
Key&& ForFineTuning(Key&& key) {
  return std::move(key).When("server.fine_tune.data", FineTunes, "server.fine_tune.data is given");
}

// The codecs for versions; "f32", which sends values unchanged, is first.
std::vector<std::string> DownloadCodecs() {
  std::vector<std::string> names = {"f32"};
  for (const std::string& codec : NamesWithTrait("codec", kSendsWholeModels))
    if (codec != names.front()) names.push_back(codec);
  return names;
}

std::vector<std::string> WithNone(std::vector<std::string> names) {
  names.insert(names.begin(), "");
  return names;
}

std::vector<Key> VersionKeys() {
  return {
      Key("server.clients_per_round", RIVULET_FIELD(server.clients_per_round), "20",
          "Clients whose updates make a round's version. All of them are drawn for it unless `server.over_selection` "
          "asks more. With `server.base` = `latest`, the updates that make a version.")
          .Between(1, 1e6)
          .Default("`10`, or all clients where there are fewer"),
      Key("server.over_selection", RIVULET_FIELD(server.over_selection), "1.3",
          "Over-selection (Bonawitz et al. 2019): a round asks over_selection × `server.clients_per_round` clients, "
          "rounded up, and closes with the first `server.clients_per_round` updates. Later ones are `dropped` and "
          "their clients stopped. Slow clients then count less often than fast ones. In a simulation `[devices]` "
          "decides the order, or else examples × epochs. With `server.base` = `latest` the round waits for no client, "
          "and `server.in_flight` is the number asked.")
          .Between(1, 100),
      Key("server.base", RIVULET_FIELD(server.base), "\"latest\"",
          "The model that a task starts from. `committed`: a round's clients are drawn together once the round before "
          "is committed. `latest`: when a task ends the next client is drawn, and starts from the newest model; open "
          "tasks go into a later version. In a simulation tasks take examples × epochs of virtual time, so that the "
          "order of arrivals is the same on any machine. Algorithms over all updates of a version, or with state of "
          "clients, need `committed`.")
          .OneOf({"", "committed", "latest"})
          .Default("`\"latest\"` of `fedasync` and `fedbuff`, `\"committed\"` of the others"),
      Key("server.in_flight", RIVULET_FIELD(server.in_flight), "30",
          "Tasks under way at a time where `server.base` is `latest`. 0: as many as `server.clients_per_round`.")
          .Between(0, 1e6),
      Key("server.max_staleness", RIVULET_FIELD(server.max_staleness), "20",
          "Where `server.base` is `latest`: versions made since a task was drawn with which its update still counts; "
          "a task that would come later is dropped.")
          .Between(0, 1e6),
      Key("server.staleness_exponent", RIVULET_FIELD(server.staleness_exponent), "1.0",
          "Where `server.base` is `latest`: an update that is t versions late counts 1 / (1 + t)^staleness_exponent, "
          "to a 256th. 0: as much as one in time.")
          .Between(0, 16),
      Key("server.min_clients", RIVULET_FIELD(server.min_clients), "15",
          "Names that must be known before the first selection. 0: as many as `data.partition.clients`; under `by_key` "
          "without that number every key where the run is simulated, and `server.clients_per_round` where it is "
          "deployed, as not all keys are known there. With `selection.tags` or `selection.min_examples` all clients "
          "that have them where the run is simulated, and `server.clients_per_round` where it is deployed.")
          .Between(0, 1e8)
          .Operation(),
      Key("server.min_reports", RIVULET_FIELD(server.min_reports), "8",
          "Updates that a round needs to commit once no candidates are left or its deadline passes. With fewer the "
          "attempt is abandoned and the next one follows. 0: four of five of `server.clients_per_round`, at least one.")
          .Between(0, 1e6)
          .Operation(),
      Key("server.deadline", RIVULET_FIELD(server.deadline_seconds), "120.0",
          "Seconds that an attempt at a round may last. A simulated round has none, unless `[devices]` say how long "
          "tasks take: then they are seconds of virtual time.")
          .Above(0)
          .Below(1e9)
          .Operation(),
      Key("server.lease", RIVULET_FIELD(server.lease_seconds), "20.0",
          "Seconds of silence after which a client's task goes to the next client of the draw. A training client "
          "sends three heartbeats in this time. One that comes back before another has taken its place continues its "
          "task. With `[devices]`, the virtual time after which an absence is noticed.")
          .Above(0)
          .Below(1e9)
          .Operation(),
      Key("server.presence", RIVULET_FIELD(server.presence_seconds), "300.0",
          "Seconds of silence after which a client is absent: it is not drawn until it polls again. A simulated client "
          "is never absent.")
          .Above(0)
          .Below(1e9)
          .Operation(),
      Key("server.max_attempts", RIVULET_FIELD(server.max_attempts), "5",
          "Attempts at one round before the run fails. 0: 3 where the run is simulated, and as many as it takes where "
          "it is deployed, after pauses that grow from a second to five minutes.")
          .Between(0, 1e6)
          .Operation(),
      Key("server.learning_rate", RIVULET_FIELD(server.learning_rate), "0.5",
          "The new model is the old one plus learning_rate × the mean delta, or the step of the algorithm's own "
          "optimiser.")
          .Between(0, 1e6),
      Key("server.download", RIVULET_FIELD(server.download), "\"int8\"",
          fmt::format(
              "Encoding of a model's values for clients: `f32` as they are; the others as in `update.codec`. Clients "
              "train from and measure the decoded values, and send the difference to them. The server continues with "
              "the model itself, so rounding does not add up. For models without running statistics only: {}.",
              NamesInWords(NamesWithTrait("codec", kMayChangeSigns))))
          .OneOf(DownloadCodecs()),
      Key("server.lora", RIVULET_FIELD(server.lora), "\"freeze_a\"",
          fmt::format("Aggregation of the adapters' A and B. {} [Adapters](../guide/adapters.md).",
                      PiecesInWords("adapter rule")))
          .OneOf(WithNone(SettingTableNames("adapter rule")))
          .Default("`\"average\"` of models with adapters"),
      Key("server.lora_rank", RIVULET_FIELD(server.lora_rank), "4",
          "Rank to which a version's adapters are cut, at most that of the model's. The others of A and B are 0 then. "
          "The dropped share of the squared norm is the metric `server/lora_dropped`. 0: the model's rank.")
          .Between(0, 65536)
          .When("server.lora", StacksAdapters, "server.lora is \"stack\""),
      Key("server.average", RIVULET_FIELD(server.average), "0.9",
          "Keeps an exponential average of the versions' weights beside the model, a ← average × a + (1 − average) × "
          "w from the first version on. `evaluation.every` measures it in the place of the newest version; its "
          "running statistics are the version's. Clients train and measure the version itself. 0: no average.")
          .Between(0, 0.999999),
      Key("server.weights", RIVULET_FIELD(server.weights), "\"uniform\"",
          "Weight of an update in the mean: its client's examples, or the same for all. Algorithms with their own "
          "weights ignore it.")
          .OneOf({"examples", "uniform"}),
      Key("server.max_weight", RIVULET_FIELD(server.max_weight), "100000",
          "Largest weight of one update, in examples; a larger one is refused. Together with `server.value_bits` and "
          "`server.clients_per_round` it decides the resolution of the sum.")
          .Between(1, (1 << 29) - 1),
      Key("server.value_bits", RIVULET_FIELD(server.value_bits), "12",
          "Largest magnitude in a delta, as a power of two; an update beyond 2^value_bits is refused. Below 0 for "
          "updates known to be small, whose sum is then as much finer. With `privacy.secure` it follows from "
          "`privacy.clip`.")
          .Between(-30, 30)
          .When("privacy.secure", SumsPlainly, "privacy.secure is \"none\""),
      Key("server.sum_bits", RIVULET_FIELD(server.sum_bits), "32",
          "Bits of a value's sum, 64 or 32. With 32 a sum is half as large and has a lower resolution, which examples "
          "as weights rarely leave enough of. For means alone.")
          .Between(32, 64),
      Key("server.staging_megabytes", RIVULET_FIELD(server.staging_megabytes), "128",
          "Uploads held in memory while they arrive; beyond it they wait in an unlinked file.")
          .Between(1, 1 << 20)
          .Operation(),
      Key("server.partial", RIVULET_FIELD(server.partial), "\"disk\"",
          "Place of a deployed coordinator's sums, 8 bytes a trainable value: its memory, or an unlinked file beside "
          "the history. The file is reserved when the run starts and goes with the process. The versions are the "
          "same to the bit.")
          .OneOf({"memory", "disk"})
          .Operation()
          .When("privacy.secure", SumsPlainly, "privacy.secure is \"none\""),
      Key("server.checkpoint_reports", RIVULET_FIELD(server.checkpoint_reports), "true",
          "Writes a deployed client's update to the coordinator's disk before it is acknowledged, so that a restarted "
          "coordinator does not ask for it again. It costs a synced file an update. Otherwise clients send the open "
          "round's updates again, without training. An aggregator does the same with its clients' updates, and the "
          "coordinator with partial sums.")
          .Operation(),
      Key("server.serve_base", RIVULET_FIELD(server.serve_base), "false",
          "Sends `model.base` to clients that ask for it. Where it is false, a client needs its own copy: "
          "`rivulet.run_client(base={DIGEST: FILE})`.")
          .Operation()
          .When(
              "model.base", [](const Scenario& s) { return !s.model.base.empty(); }, "model.base is given"),
  };
}

std::vector<Key> ServerScheduleKeys() {
  std::vector<Key> keys = {
      Key("server.schedule.kind", RIVULET_FIELD(server.schedule.kind), "\"cosine\"",
          fmt::format("`server.learning_rate` from version to version, after warm-up. {}",
                      PiecesInWords("server schedule")))
          .OneOf(SettingTableNames("server schedule")),
      Key("server.schedule.warmup", RIVULET_FIELD(server.schedule.warmup), "5",
          "Versions over which the rate rises in equal steps; the first has learning_rate / warmup.")
          .Between(0, 1e9),
  };
  std::ranges::move(OptionKeys({.section = "server.schedule",
                                .kind = "server schedule",
                                .selector = "server.schedule.kind",
                                .chosen = [](const Scenario& scenario) { return scenario.server.schedule.kind; },
                                .settings = RIVULET_FIELD(server.schedule.settings)}),
                    std::back_inserter(keys));
  return keys;
}

std::vector<Key> FineTuneKeys() {
  return {
      Key("server.fine_tune.data", RIVULET_FIELD(server.fine_tune.data), "\"server.tfrecord\"",
          "TFRecord file, with the features of the clients' data, on which the server trains each version before it is "
          "published, by plain gradient descent. Only the coordinator reads that file.")
          .Path()
          .Default("none; versions follow from clients' updates alone")
          .OfGraphs(),
      ForFineTuning(Key("server.fine_tune.epochs", RIVULET_FIELD(server.fine_tune.epochs), "2",
                        "Passes over that file for each version.")
                        .Between(1, 1e6)),
      ForFineTuning(
          Key("server.fine_tune.batch_size", RIVULET_FIELD(server.fine_tune.batch_size), "32", "Examples per step.")
              .Between(1, 1 << 20)),
      ForFineTuning(Key("server.fine_tune.learning_rate", RIVULET_FIELD(server.fine_tune.learning_rate), "0.1",
                        "Step length; 0 leaves versions as they are.")
                        .Between(0, 1e6)),
  };
}

}  // namespace

std::vector<Key> ServerKeys() {
  std::vector<Key> keys;
  for (const auto section : {VersionKeys, ServerScheduleKeys, FineTuneKeys})
    std::ranges::move(section(), std::back_inserter(keys));
  return keys;
}

}  // namespace rivulet::scenario
