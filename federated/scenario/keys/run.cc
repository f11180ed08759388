// [run]: name, length and stored files of a run.
#include "federated/scenario/keys.h"

namespace rivulet::scenario {

std::vector<Key> RunKeys() {
  return {
      Key("run.name", RIVULET_FIELD(run.name), "\"mnist-fedavg\"",
          "Name of the run in the history; `latest` is reserved. Several runs may share a name, which then means the "
          "newest.")
          .Default("the scenario file's name without `.toml`"),
      Key("run.rounds", RIVULET_FIELD(run.rounds), "50", "Rounds to commit. A resumed run may be given more.")
          .Between(1, 1e9)
          .Operation(),
      Key("run.stop", RIVULET_FIELD(run.stop), "\"accuracy >= 0.99\"",
          "With which version the run ends before its rounds are over: the first of which this holds, of those that "
          "are measured (`evaluation.every`). A metric, one of `<`, `<=`, `>` and `>=`, and a number. Without its set "
          "(`loss`) a metric is the validation set's, or where there is none the test set's; with it (`test/loss`) "
          "that set's.")
          .Default("none; all rounds are run")
          .When(
              "evaluation.every", [](const Scenario& s) { return s.evaluation.every > 0; }, "evaluation.every is not 0")
          .OrNone()
          .Operation(),
      Key("run.patience", RIVULET_FIELD(run.patience), "10",
          "Ends the run after this many measured versions in turn without an improvement. The measure is the accuracy "
          "on the validation set, or without one the test set, or else the loss there. 0: never.")
          .Between(0, 1e9)
          .When(
              "evaluation.every", [](const Scenario& s) { return s.evaluation.every > 0; }, "evaluation.every is not 0")
          .Operation(),
      Key("run.seed", RIVULET_FIELD(run.seed), "7",
          "Every draw of the run comes from it: initial weights, partition, cohorts, order of examples, dropout. The "
          "same seed gives the same model, bit for bit.")
          .AtLeast(0),
      Key("run.keep_models", RIVULET_FIELD(run.keep_models), "\"all\"",
          "Committed models that stay on disk. `last` keeps the newest two. `best` also keeps the one with the best "
          "accuracy on the validation set, or without one the test set, or else with the least loss there. `all` "
          "keeps every round's. Rows of the others stay in the history.")
          .OneOf({"best", "last", "all"})
          .Operation(),
      Key("run.durability", RIVULET_FIELD(run.durability), "\"end\"",
          "Time at which committed rounds are written, while training continues. Each is written at once (`round`), "
          "those of a second together (`second`), or all at the end of the run (`end`; sooner if more than 64 MB "
          "wait). A crash loses unwritten rounds, and a resumed run makes them again, to the same bits.")
          .OneOf({"", "round", "second", "end"})
          .Default("`\"second\"` in a simulation, `\"round\"` in a deployment")
          .Operation(),
      Key("run.kernels", RIVULET_FIELD(run.kernels), "\"portable\"",
          "`native` kernels are the fastest for each machine, and unlike machines round differently. `portable` "
          "kernels give the same model, bit for bit, on any CPU, and take longer. The plan carries it to every client; "
          "`--kernels` sets it.")
          .OneOf({"native", "portable"}),
      Key("run.cache_megabytes", RIVULET_FIELD(run.cache_megabytes), "0",
          "Memory for examples that have been decoded, of a simulation's clients and of the test set, which need not "
          "be decoded again: first come, first kept. Changes no bit. A resumed run may be given another.")
          .Between(0, 1 << 20)
          .Operation(),
  };
}

}  // namespace rivulet::scenario
