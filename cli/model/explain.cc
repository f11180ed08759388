#include "cli/model/explain.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "coordinator/history/history.h"
#include "coordinator/history/pointers.h"
#include "engine/base/file_system.h"
#include "engine/base/join.h"
#include "engine/base/json.h"
#include "engine/base/nearest.h"
#include "engine/base/table.h"
#include "serving/loaded_version.h"
#include "serving/pointed_files.h"
#include "serving/pointed_names.h"

namespace rivulet {
namespace {

struct ExplainArguments {
  std::string name;
  std::string db = "./rivulet.sqlite";
  bool json = false;
};

// The newest row of NAME, NAME=LABEL or NAME=VERSION, and the labels that lead to its version now.
StatusOr<PointerRow> FindPointer(const std::vector<PointerRow>& rows, const std::string& what,
                                 std::vector<std::string>& labels) {
  const size_t equals = what.find('=');
  const std::string name = what.substr(0, equals);
  const std::string wanted = equals == std::string::npos ? kStableLabel : what.substr(equals + 1);
  const auto names = NamesOf(rows);
  const auto named = names.find(name);
  if (named == names.end()) {
    std::vector<std::string> known;
    for (const auto& [other, labels_of] : names) known.push_back(other);
    return NotFound("no label of the name '{}' was set.{}", name, DidYouMean(name, known));
  }
  const auto row = std::find_if(rows.rbegin(), rows.rend(), [&](const PointerRow& candidate) {
    return candidate.name == name && (candidate.label == wanted || fmt::format("{}", candidate.version) == wanted);
  });
  if (row == rows.rend()) return NotFound("the name '{}' has no label or version '{}'", name, wanted);
  for (const auto& [label, target] : named->second.labels)
    if (target.target.version == row->version) labels.push_back(label);
  return *row;
}

// Whether both files of the version are unchanged since it was pointed to.
std::string StateOfFiles(const std::string& real_path, const PointerRow& row) {
  FileSystem& fs = FileSystem::Default();
  const PointedFiles files(fs, real_path);
  const PointedVersion version{row.version, row.run_id, row.round, row.digest, row.plan_digest};
  const PointedFiles::Found found = files.Find(version);
  if (!fs.Exists(found.version)) return "kept no more";
  const auto plan = LoadServedPlan(fs, found.plan, row.plan_digest);
  if (!plan.ok()) return std::string(Message(plan.status()));
  // Of a model with several clusters, the first: the digest covers all of them.
  const auto one = LoadServedModel(fs, found.version, row.digest, (*plan)->layout(), std::nullopt);
  const Status model = absl::IsFailedPrecondition(one.status()) ? absl::OkStatus() : one.status();
  return model.ok() ? "as pointed to" : std::string(Message(model));
}

Status Explain(const ExplainArguments& arguments) {
  RIVULET_ASSIGN_OR_RETURN(const auto pointers, Pointers::Open(arguments.db, Database::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(const auto rows, pointers->Rows());
  std::vector<std::string> labels;
  RIVULET_ASSIGN_OR_RETURN(const PointerRow row, FindPointer(rows, arguments.name, labels));
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(arguments.db, History::Access::kReadOnly));
  Fields fields = {{"name", row.name},
                   {"version", row.version},
                   {"labels", TextCell(Join(labels, ", "))},
                   {"run_id", row.run_id},
                   {"round", row.round},
                   {"digest", row.digest},
                   {"plan_digest", row.plan_digest},
                   {"files", StateOfFiles(history->real_path(), row)}};
  const StatusOr<RunRow> run = history->ResolveRun(row.run_id);
  if (!run.ok()) {
    fields.emplace_back("run", "removed from the history");
  } else {
    fields.emplace_back("run_name", run->name);
    fields.emplace_back("seed", fmt::format("{}", run->seed));
    fields.emplace_back("program", run->version);
    RIVULET_ASSIGN_OR_RETURN(
        const SqlAnswer answer,
        history->Ask(
            "SELECT count(DISTINCT client_id), count(*), sum(examples) FROM client_rounds WHERE run_id = ? AND "
            "status = 'folded' AND kind = 'train' AND committed_round <= ?",
            {row.run_id, row.round}));
    const char* const names[] = {"clients", "updates", "examples"};
    for (size_t i = 0; i < 3 && !answer.rows.empty(); ++i) {
      const int64_t* const count = std::get_if<int64_t>(&answer.rows[0][i]);
      fields.emplace_back(names[i], count == nullptr ? 0 : *count);
    }
    RIVULET_ASSIGN_OR_RETURN(const auto metrics, history->Metrics(row.run_id));
    for (const MetricRow& metric : metrics)
      if (metric.round == row.round && metric.value) fields.emplace_back(metric.name, *metric.value);
    fields.emplace_back("verify", fmt::format("rivulet runs verify {} --to {}", row.run_id, row.round));
  }
  fmt::print("{}", arguments.json ? JsonObject(fields) + "\n" : FieldLines(fields));
  return absl::OkStatus();
}

}  // namespace

Command ModelExplainCommand() {
  auto arguments = std::make_shared<ExplainArguments>();
  Command command{.name = "explain",
                  .summary = "Print the run, clients and data behind a served version.",
                  .example = "rivulet model explain mnist\n  rivulet model explain mnist=canary"};
  command.Positional("NAME[=LABEL|VERSION]", &arguments->name, "the name, and a label or version of it [stable]")
      .Option("--db", "FILE", &arguments->db, "the history [./rivulet.sqlite]")
      .Flag("--json", &arguments->json, "print one JSON object");
  command.run = [arguments] { return Explain(*arguments); };
  return command;
}

}  // namespace rivulet
