// rivulet scenarios: the shipped scenarios. rivulet new: a new scenario to start from.
#include <memory>

#include "cli/command.h"
#include "cli/shell_quote.h"
#include "engine/base/file_system.h"
#include "federated/scenario/scenario.h"
#include "simulations/shipped/shipped_scenarios.h"

namespace rivulet {
namespace {

constexpr char kNewScenario[] =
    R"(# What a federated run is made from. docs/reference/scenario.md has every key, with its default.
[run]
rounds = 20                # models that are made, one after the other
seed = 1                   # decides every draw: the same scenario gives the same model, bit for bit

[model]
preset = "mnist_cnn"       # or graph, onnx, arrays, or [[model.layers]] of your own

[data]
# Handwritten digits, drawn on first use. Data of your own: train = "train.tfrecord", test = "test.tfrecord"
# ('rivulet data import' makes such files), without synth.
synth = { kind = "digits", writers = 100, test_writers = 10, examples_per_writer = 60 }
# Who has which examples: iid, dirichlet, shards, by_key, and more.
partition = { kind = "by_key", key = "writer" }

[client]
epochs = 1                 # over its own examples, each time that it is drawn
batch_size = 10
optimizer = { kind = "sgd", learning_rate = 0.1 }

[algorithm]
name = "fedavg"            # docs/reference/algorithms.md has the others

[server]
clients_per_round = 10     # drawn for each round

[evaluation]
every = 1                  # rounds between evaluations on the test set
)";

Status ListScenarios() {
  const std::vector<ShippedScenario> scenarios = ShippedIn(ShippedFolder::kScenarios);
  if (scenarios.empty()) {
    return NotFound("no scenarios are installed with this program; 'rivulet new FILE.toml' writes one");
  }
  for (const ShippedScenario& scenario : scenarios) {
    std::string about = scenario.about;
    for (size_t line = 0; (line = about.find('\n', line)) != std::string::npos; line += 5)
      about.replace(line, 1, "\n    ");
    fmt::print("{}\n    {}\n", scenario.name, about);
  }
  return absl::OkStatus();
}

struct NewOptions {
  std::string file, from;
};

Status WriteNew(const NewOptions& options) {
  std::string text = kNewScenario;
  FileSystem& files = FileSystem::Default();
  if (!options.from.empty()) {
    RIVULET_ASSIGN_OR_RETURN(const ShippedScenario shipped, FindShippedScenario(options.from));
    RIVULET_ASSIGN_OR_RETURN(text, files.ReadAll(shipped.path));
  }
  if (files.Exists(options.file)) return AlreadyExists("'{}' is there already; name another file", options.file);
  RIVULET_RETURN_IF_ERROR(WriteFileAtomically(files, options.file, text));
  fmt::print("rivulet simulate {}\n", ShellQuote(options.file));
  return absl::OkStatus();
}

const RegisterCommand kScenarios(12, [] {
  Command command{.name = "scenarios",
                  .summary = "List the shipped scenarios, which can be run by name.",
                  .example = "rivulet scenarios"};
  command.run = ListScenarios;
  return command;
});

const RegisterCommand kNew(13, [] {
  auto options = std::make_shared<NewOptions>();
  Command command{.name = "new",
                  .summary = "Write a commented scenario as a start.",
                  .example = "rivulet new mine.toml --from mnist-fedavg"};
  command.Positional("SCENARIO.toml", &options->file, "the file to write")
      .Option("--from", "NAME", &options->from, "copy this scenario of 'rivulet scenarios'");
  command.run = [options] { return WriteNew(*options); };
  return command;
});

}  // namespace
}  // namespace rivulet
