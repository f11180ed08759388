// rivulet data partition: each client's examples, as files or as a picture.
#include <fmt/format.h>

#include <charconv>
#include <memory>

#include "cli/command.h"
#include "cli/data/commands.h"
#include "cli/long_work.h"
#include "cli/run/options.h"
#include "cli/run/prepare_data.h"
#include "cli/terminal.h"
#include "engine/base/file_system.h"
#include "engine/base/table.h"
#include "engine/io/new_folder.h"
#include "inspect/partition_picture.h"
#include "setup/class_names.h"
#include "setup/feature_shift.h"
#include "setup/partition_files.h"
#include "setup/partition_summary.h"
#include "setup/run_setup.h"
#include "setup/split.h"

namespace rivulet {
namespace {

constexpr int64_t kPictureColumns = 420;

struct PartitionCommandOptions {
  ScenarioOptions run;
  std::string out, plot, split;
  bool json = false;
};

// A client's DIR/*.tfrecord would include all other records there.
Status RefuseOtherRecords(FileSystem& fs, const std::string& folder, const Shares& shares) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs.List(folder));
  for (const std::string& name : names) {
    constexpr std::string_view kSuffix = ".tfrecord";
    if (!name.ends_with(kSuffix)) continue;
    if (!shares.Find(std::string_view(name).substr(0, name.size() - kSuffix.size()))) {
      return AlreadyExists(
          "{} holds '{}', which is no client of this partition and could be taken for one; give an empty folder",
          folder, name);
    }
  }
  return absl::OkStatus();
}

// `names`: of the classes, written as classes.txt; empty: there are none.
Status WriteClients(const std::string& folder, const Dataset& data, const Shares& shares,
                    const std::vector<std::string>& names, bool tell) {
  FileSystem& fs = FileSystem::Default();
  RIVULET_ASSIGN_OR_RETURN(const auto made, NewFolder::Create(fs, folder));
  RIVULET_RETURN_IF_ERROR(RefuseOtherRecords(fs, folder, shares));
  {
    LongWork work("writing clients");
    RIVULET_RETURN_IF_ERROR(WritePartitionFiles(fs, data, shares, folder, work.progress()).status());
  }
  if (!names.empty()) {
    std::string lines;
    for (const std::string& name : names) lines += name + "\n";
    RIVULET_RETURN_IF_ERROR(WriteFileAtomically(fs, JoinPath(folder, "classes.txt"), lines));
  }
  if (tell) fmt::print("{}: {} examples for {} clients\n", folder, shares.examples(), shares.size());
  return absl::OkStatus();
}

// 80, 10 and 10 from "80/10/10".
StatusOr<std::vector<int64_t>> PercentsOf(const std::string& split) {
  std::vector<int64_t> percents;
  for (const char *at = split.data(), *const end = at + split.size();; ++at) {
    int64_t percent = 0;
    const auto [next, error] = std::from_chars(at, end, percent);
    if (error != std::errc() || (next != end && *next != '/') || percents.size() == 3)
      return UsageError("--split is '{}'; give two or three percentages, such as 80/20 or 80/10/10", split);
    percents.push_back(percent);
    at = next;
    if (at == end) break;
  }
  if (percents.size() < 2) return UsageError("--split is '{}'; give two or three percentages, such as 80/20", split);
  return percents;
}

// Writes DIR/train, DIR/validation if requested, and DIR/test.
Status WriteSplitClients(const std::string& folder, const Dataset& data, const Shares& shares,
                         const std::vector<int64_t>& percents, uint64_t seed, const std::vector<std::string>& names,
                         bool tell) {
  auto parts = SplitEach(shares, percents, seed);
  if (!parts.ok()) return UsageError("--split: {}", Message(parts.status()));
  for (size_t part = 0; part < parts->size(); ++part) {
    const char* const name = part == 0 ? "train" : part + 1 == parts->size() ? "test" : "validation";
    RIVULET_RETURN_IF_ERROR(WriteClients(JoinPath(folder, name), data, (*parts)[part], names, tell));
  }
  return absl::OkStatus();
}

std::string PartitionJson(const PartitionSummary& summary) {
  return JsonObject({{"clients", summary.clients},
                     {"examples", summary.examples},
                     {"smallest", summary.smallest},
                     {"median", summary.median},
                     {"largest", summary.largest},
                     {"labels", static_cast<int64_t>(summary.labels.size())},
                     {"labels_per_client", summary.labels_per_client},
                     {"distance", summary.distance}});
}

Status DividePartition(const PartitionCommandOptions& options) {
  if (!options.plot.empty()) {
    if (const Status name = CheckPictureName(options.plot); !name.ok()) return AsUsageError(Annotate(name, "--plot"));
  }
  if (!options.split.empty() && options.out.empty()) return UsageError("--split has an effect only with --out");
  std::vector<int64_t> percents;
  if (!options.split.empty()) {
    RIVULET_ASSIGN_OR_RETURN(percents, PercentsOf(options.split));
  }
  ScenarioOptions run = options.run;
  run.part = ScenarioPart::kData;
  RIVULET_ASSIGN_OR_RETURN(Scenario scenario, LoadScenario(run));
  if (scenario.data.synth.kind.empty()) scenario.data.test.clear();  // it is not needed here
  RIVULET_RETURN_IF_ERROR(PrepareDataHere(scenario));
  RunSetup setup(std::move(scenario));
  RIVULET_ASSIGN_OR_RETURN(const auto data, setup.training_data());
  RIVULET_ASSIGN_OR_RETURN(const auto shares, setup.shares());
  const DataConfig& config = setup.scenario().data;
  const std::vector<std::string> names = ClassNamesOf(setup.scenario(), config.train);
  if (!options.out.empty() && percents.empty())
    RIVULET_RETURN_IF_ERROR(WriteClients(options.out, *data, *shares, names, !options.json));
  if (!options.out.empty() && !percents.empty())
    RIVULET_RETURN_IF_ERROR(
        WriteSplitClients(options.out, *data, *shares, percents, setup.scenario().run.seed, names, !options.json));
  const std::string label = ClassFeatureOf(setup.scenario());
  if (!options.plot.empty()) {
    if (label.empty())
      return UsageError("--plot draws classes by clients, and model.target is \"{}\"", setup.scenario().model.target);
    RIVULET_ASSIGN_OR_RETURN(PartitionSummary summary, Summarise(*data, *shares, label, kPictureColumns));
    summary.names = names;
    const std::string title =
        fmt::format("{}: {} over {} clients", setup.scenario().run.name, config.partition.kind, summary.clients);
    RIVULET_RETURN_IF_ERROR(WritePicture(PartitionPicture(summary, title), options.plot));
    if (!options.json)
      fmt::print("{}: {} labels by {} clients\n", options.plot, summary.labels.size(), summary.clients);
  }
  if (options.json || (options.out.empty() && options.plot.empty())) {
    const auto columns = static_cast<int64_t>(TerminalColumns());
    RIVULET_ASSIGN_OR_RETURN(PartitionSummary summary,
                             Summarise(*data, *shares, label, std::clamp<int64_t>(columns - 20, 10, 200)));
    summary.names = names;
    fmt::print("{}", options.json ? PartitionJson(summary) + "\n" : PartitionText(summary));
    if (!options.json && !config.shift.kind.empty()) {
      RIVULET_ASSIGN_OR_RETURN(const std::string shift, ShiftText(config.shift, shares->size()));
      fmt::print("shift     {}\n", shift);
    }
  }
  return absl::OkStatus();
}

}  // namespace

Command DataPartitionCommand() {
  auto options = std::make_shared<PartitionCommandOptions>();
  Command command{.name = "partition",
                  .summary = "Show a scenario's partition of its training data, or write each client's data to a file.",
                  .example =
                      "rivulet data partition quickstart\n"
                      "rivulet data partition quickstart --out clients"};
  command.Positional("SCENARIO.toml", &options->run.scenario, "the scenario with the data set and partition")
      .Repeated("--set", "KEY=VALUE", &options->run.sets,
                "set a key of the scenario, such as data.partition.clients=5; repeatable")
      .Option("--out", "DIR", &options->out, "write DIR/<client_id>.tfrecord, and the classes' names")
      .Option("--split", "80/10/10", &options->split,
              "with --out: percentages of each client's examples in DIR/train, DIR/validation and DIR/test; two "
              "numbers: train and test")
      .Option("--plot", "FILE", &options->plot, "draw labels by clients: .svg or .png")
      .Flag("--json", &options->json, "print one JSON object about the partition");
  command.run = [options] { return DividePartition(*options); };
  return command;
}

}  // namespace rivulet
