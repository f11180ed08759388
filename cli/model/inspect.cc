#include "cli/model/inspect.h"

#include <cmath>
#include <memory>

#include "cli/model/weights_source.h"
#include "engine/base/table.h"
#include "engine/debug/statistics.h"
#include "inspect/run_records.h"

namespace rivulet {
namespace {

struct InspectArguments {
  std::string what;
  std::string db = "./rivulet.sqlite";
  bool json = false;
};

Status Inspect(const InspectArguments& arguments) {
  RIVULET_ASSIGN_OR_RETURN(const WeightsSource source, LoadWeights(arguments.what, arguments.db));
  Table table({{"tensor"},
               {"dtype"},
               {"shape"},
               {"bytes"},
               {"min"},
               {"max"},
               {"mean"},
               {"deviation"},
               {"norm"},
               {"zeros"},
               {"not_finite"}});
  int64_t elements = 0, bytes = 0, not_finite = 0;
  std::string record;
  if (source.version) {
    RIVULET_ASSIGN_OR_RETURN(record, RecordStanding(arguments.db, source.metadata, *source.version));
  }
  for (const auto& [name, tensor] : source.weights) {
    const TensorStatistics statistics = StatisticsOf(tensor.view());
    const bool any = statistics.finite() > 0;
    // The sum of squares, from mean and deviation: n (mean^2 + deviation^2).
    const double norm = std::sqrt(static_cast<double>(statistics.finite()) *
                                  (statistics.mean * statistics.mean + statistics.deviation * statistics.deviation));
    const int64_t strange = statistics.nan + statistics.infinite();
    table.Add({name, std::string(Name(tensor.dtype())), tensor.shape().ToString(), static_cast<int64_t>(tensor.bytes()),
               any ? Cell(statistics.min) : Cell(), any ? Cell(statistics.max) : Cell(),
               any ? Cell(statistics.mean) : Cell(), any ? Cell(statistics.deviation) : Cell(),
               any ? Cell(norm) : Cell(), statistics.zero, strange});
    elements += tensor.elements();
    bytes += static_cast<int64_t>(tensor.bytes());
    not_finite += strange;
  }
  Fields fields = {
      {"source", source.title}, {"format", source.format}, {"tensors", static_cast<int64_t>(source.weights.size())},
      {"elements", elements},   {"bytes", bytes},          {"not_finite", not_finite}};
  if (!record.empty()) fields.emplace_back("record", record);
  if (arguments.json) {
    for (const auto& [key, value] : source.metadata) fields.emplace_back("metadata." + key, value);
    std::string head = JsonObject(fields);
    head.pop_back();
    fmt::print("{},\n\"values\": {}}}\n", head, table.Json());
    return absl::OkStatus();
  }
  for (const auto& [key, value] : source.metadata) fields.emplace_back(key, value);
  fmt::print("{}\n{}", FieldLines(fields), table.Text());
  return absl::OkStatus();
}

}  // namespace

Command ModelInspectCommand() {
  auto arguments = std::make_shared<InspectArguments>();
  Command command{.name = "inspect",
                  .summary = "Show a model's tensors: types, shapes and statistics of their values.",
                  .example = "rivulet model inspect latest:best\n  rivulet model inspect weights.npz"};
  command
      .Positional("WHAT", &arguments->what,
                  "RUN[:ROUND] of the history, ROUND being a number, 'latest' or 'best'; FILE.safetensors, FILE.npz, a "
                  "preset, SCENARIO.toml, FILE.pb, FILE.onnx")
      .Option("--db", "FILE", &arguments->db, "the history that has the run [./rivulet.sqlite]")
      .Flag("--json", &arguments->json, "print one JSON object");
  command.run = [arguments] { return Inspect(*arguments); };
  return command;
}

}  // namespace rivulet
