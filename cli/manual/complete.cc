// rivulet complete: candidates for the scripts of `rivulet completion` and the Python package that depend on files and
// keys. A line is a candidate, with a tab and a few words about it. This command is hidden from help.
#include <memory>
#include <utility>

#include "cli/command.h"
#include "cli/program/option_keys.h"
#include "coordinator/history/history.h"
#include "federated/scenario/scenario.h"
#include "federated/scenario/suggest_key.h"
#include "simulations/shipped/shipped_scenarios.h"

namespace rivulet {
namespace {

struct CompleteOptions {
  std::string kind, word;
  std::string db = "./rivulet.sqlite";
};

void PrintCandidate(std::string_view candidate, std::string_view about) {
  const std::string_view line = about.substr(0, about.find('\n'));
  fmt::print("{}\t{}\n", candidate, line.substr(0, line.find(". ")));
}

void PrintScenarios() {
  for (const ShippedScenario& scenario : ShippedIn(ShippedFolder::kScenarios))
    PrintCandidate(scenario.name, scenario.about);
}

Status PrintRunIds(const std::string& db) {
  PrintCandidate("latest", "the newest run");
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(db, History::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<RunSummaryRow> runs, history->RunSummaries());
  for (const RunSummaryRow& run : runs) PrintCandidate(run.run_id, run.status);
  return absl::OkStatus();
}

void PrintKeys() {
  std::string before;
  for (const ScenarioKey& key : KeysAndOptions())  // keys of one name are adjacent
    if (key.name != std::exchange(before, key.name)) PrintCandidate(key.name + "=", key.doc);
}

// The choices of a key, if any: `"sgd", "adam"` as in the reference.
void PrintValues(std::string_view name) {
  for (const ScenarioKey& key : KeysAndOptions()) {
    if (key.name != name) continue;
    std::string_view rest = key.type == "boolean" ? std::string_view("\"true\", \"false\"") : key.allowed;
    for (size_t begin = 0; (begin = rest.find('"')) != std::string_view::npos;) {
      const size_t end = rest.find('"', begin + 1);
      if (end == std::string_view::npos) return;
      PrintCandidate(rest.substr(begin + 1, end - begin - 1), "");
      rest.remove_prefix(end + 1);
    }
  }
}

Status Complete(const CompleteOptions& options) {
  if (options.kind == "scenarios") {
    PrintScenarios();
  } else if (options.kind == "runs") {
    return PrintRunIds(options.db);
  } else if (options.kind == "keys") {
    PrintKeys();
  } else if (options.kind == "values") {
    PrintValues(options.word);
  } else if (options.kind == "meant") {
    if (const std::string key = NearestScenarioKey(options.word); !key.empty()) fmt::print("{}\n", key);
  } else {
    return UsageError("KIND is scenarios, runs, keys, values or meant, not '{}'", Shortened(options.kind));
  }
  return absl::OkStatus();
}

const RegisterCommand kComplete(97, [] {
  auto options = std::make_shared<CompleteOptions>();
  Command command{.name = "complete",
                  .summary = "Print candidates for completion.",
                  .example = "rivulet complete keys",
                  .hidden = true};
  command
      .Positional("KIND", &options->kind, "scenarios, runs, keys, values of a key, or the key that is meant by a word")
      .OptionalPositional("WORD", &options->word, "the key or the word")
      .Option("--db", "FILE", &options->db, "the history [./rivulet.sqlite]");
  command.run = [options] { return Complete(*options); };
  return command;
});

}  // namespace
}  // namespace rivulet
