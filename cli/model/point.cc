#include "cli/model/point.h"

#include <pwd.h>
#include <unistd.h>

#include <charconv>
#include <memory>
#include <optional>

#include "cli/terminal.h"
#include "coordinator/history/rows.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/table.h"
#include "inspect/model_source.h"
#include "inspect/run_model.h"
#include "serving/point.h"
#include "serving/pointed_names.h"

namespace rivulet {
namespace {

struct PointArguments {
  std::string name, target;
  std::string db = "./rivulet.sqlite";
  std::string percent, note;
  std::optional<int64_t> cluster;
  bool json = false;
};

// The user of this process, for the row.
std::string UserName() {
  const passwd* const user = getpwuid(geteuid());
  return user == nullptr ? fmt::format("uid {}", geteuid()) : user->pw_name;
}

void PrintPointer(const PointerRow& row, bool json) {
  Fields fields = {{"name", row.name},     {"label", row.label}, {"version", row.version},
                   {"run_id", row.run_id}, {"round", row.round}, {"digest", row.digest}};
  if (row.share > 0) fields.emplace_back("percent", row.share);
  fmt::print("{}", json ? JsonObject(fields) + "\n" : FieldLines(fields));
}

StatusOr<std::optional<double>> ReadPercent(const std::string& text) {
  if (text.empty()) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= 100))
    return UsageError("--percent is 0 to 100, not '{}'", Shortened(text));
  return value;
}

// "canary=latest:best"; without '=' it is the stable label's.
Status Point(const PointArguments& arguments) {
  const size_t equals = arguments.target.find('=');
  const std::string label = equals == std::string::npos ? kStableLabel : arguments.target.substr(0, equals);
  const std::string what = equals == std::string::npos ? arguments.target : arguments.target.substr(equals + 1);
  RIVULET_RETURN_IF_ERROR(AsUsageError(CheckServedName(arguments.name)));
  RIVULET_RETURN_IF_ERROR(AsUsageError(CheckLabel(label)));
  RIVULET_ASSIGN_OR_RETURN(const auto percent, ReadPercent(arguments.percent));
  RIVULET_ASSIGN_OR_RETURN(const RunModel found, FindRunModel(arguments.db, what));
  const PointRequest request{.db = arguments.db,
                             .name = arguments.name,
                             .label = label,
                             .run_id = found.run_id,
                             .round = found.round,
                             .version_path = found.path,
                             .percent = percent,
                             .cluster = arguments.cluster,
                             .author = UserName(),
                             .note = arguments.note,
                             .now = Clock::System().UnixMs()};
  const auto row = PointTo(FileSystem::Default(), request, {.outputs = {}, .scores = ScoresOf});
  if (!row.ok())
    return Annotate(row.status(), fmt::format("{} cannot be served as '{}={}'", what, arguments.name, label));
  PrintPointer(*row, arguments.json);
  return absl::OkStatus();
}

Status Rollback(const PointArguments& arguments) {
  const size_t equals = arguments.name.find('=');
  const std::string label = equals == std::string::npos ? kStableLabel : arguments.name.substr(equals + 1);
  RIVULET_ASSIGN_OR_RETURN(const PointerRow row,
                           RollBack(FileSystem::Default(), arguments.db, arguments.name.substr(0, equals), label,
                                    UserName(), Clock::System().UnixMs()));
  PrintPointer(row, arguments.json);
  return absl::OkStatus();
}

Status ShowPoints(const PointArguments& arguments) {
  RIVULET_ASSIGN_OR_RETURN(const auto pointers, Pointers::Open(arguments.db, Database::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(const auto rows, pointers->Rows());
  Table table({{.name = "at"},
               {.name = "name"},
               {.name = "label"},
               {.name = "version"},
               {.name = "run_id"},
               {.name = "round"},
               {.name = "percent"},
               {.name = "digest"},
               {.name = "author"},
               {.name = "note"}});
  for (const PointerRow& row : rows) {
    if (!arguments.name.empty() && row.name != arguments.name) continue;
    const std::string note = row.rolled_back ? (row.note.empty() ? "rollback" : "rollback: " + row.note) : row.note;
    table.Add({Iso8601(row.at), row.name, row.label, row.version, row.run_id, row.round,
               row.share > 0 ? Cell(row.share) : Cell(), arguments.json ? row.digest : row.digest.substr(0, 12),
               TextCell(row.author), TextCell(note)});
  }
  if (table.size() == 0 && !arguments.name.empty())
    return NotFound("no label of the name '{}' was set in '{}'", arguments.name, arguments.db);
  fmt::print("{}", arguments.json ? table.Rows().Dump() + "\n" : table.Text(ResultColumns()));
  return absl::OkStatus();
}

constexpr char kDbHelp[] = "the history [./rivulet.sqlite]";

}  // namespace

Command ModelPointCommand() {
  auto arguments = std::make_shared<PointArguments>();
  Command command{.name = "point",
                  .summary = "Point a label of a served name to a version of a run.",
                  .example =
                      "rivulet model point mnist stable=latest:best\n"
                      "  rivulet model point mnist canary=mnist-fedavg:2 --percent 5"};
  command.Positional("NAME", &arguments->name, "the name under which clients find the model")
      .Positional("[LABEL=]RUN[:ROUND]", &arguments->target,
                  "the label [stable] and its version; ROUND is a number, 'latest' or 'best'")
      .Option("--percent", "P", &arguments->percent,
              "share of the requests without version or label that go to this label, for 'canary' [as before]")
      .Option("--note", "TEXT", &arguments->note, "a reason, kept with the row")
      .Option("--db", "FILE", &arguments->db, kDbHelp)
      .Option("--cluster", "K", &arguments->cluster, kClusterHelp, {.min = 0})
      .Flag("--json", &arguments->json, "print one JSON object");
  command.run = [arguments] { return Point(*arguments); };
  return command;
}

Command ModelRollbackCommand() {
  auto arguments = std::make_shared<PointArguments>();
  Command command{.name = "rollback",
                  .summary = "Step a label of a served name back to its target before.",
                  .example = "rivulet model rollback mnist\n  rivulet model rollback mnist=canary"};
  command.Positional("NAME[=LABEL]", &arguments->name, "the name, and the label [stable]")
      .Option("--db", "FILE", &arguments->db, kDbHelp)
      .Flag("--json", &arguments->json, "print one JSON object");
  command.run = [arguments] { return Rollback(*arguments); };
  return command;
}

Command ModelPointsCommand() {
  auto arguments = std::make_shared<PointArguments>();
  Command command{.name = "points",
                  .summary = "Print when the labels of served names were set, and to which versions.",
                  .example = "rivulet model points mnist"};
  command.OptionalPositional("NAME", &arguments->name, "a served name [all]")
      .Option("--db", "FILE", &arguments->db, kDbHelp)
      .Flag("--json", &arguments->json, "print a JSON array");
  command.run = [arguments] { return ShowPoints(*arguments); };
  return command;
}

}  // namespace rivulet
