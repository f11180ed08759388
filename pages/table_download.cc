// The tables of the pages as CSV, by name.
#include <algorithm>
#include <map>

#include "engine/base/join.h"
#include "inspect/csv.h"
#include "inspect/overview.h"
#include "inspect/pauses.h"
#include "pages/comparison.h"
#include "pages/downloads.h"
#include "pages/layer_report.h"

namespace rivulet {
namespace {

// A line per setting and round, with the number of runs in the mean.
StatusOr<std::string> CurveCsv(std::span<const PlacedRun> runs, const std::string& metric) {
  if (runs.size() < 2) {
    RIVULET_ASSIGN_OR_RETURN(const RunRow run, runs.front().history.ResolveRun(runs.front().run));
    RIVULET_ASSIGN_OR_RETURN(const std::vector<Curve> curves, LoadCurves(runs.front().history, run.run_id));
    const Curve* const curve = FindCurve(curves, metric);
    if (curve == nullptr) return NotFound("run '{}' has no '{}'", run.run_id, metric);
    std::string csv = CsvLine({"round", CsvField(metric)});
    for (const auto& [round, value] : curve->points) csv += CsvLine({fmt::format("{}", round), CsvField(value)});
    return csv;
  }
  RIVULET_ASSIGN_OR_RETURN(const Comparison comparison, LoadComparison(runs));
  std::string csv = "setting,round,runs,mean,deviation\n";
  for (const ComparedSetting& setting : comparison.settings) {
    std::vector<const Curve*> curves;
    for (const size_t run : setting.runs)
      if (const Curve* curve = FindCurve(comparison.runs[run].curves, metric); curve != nullptr)
        curves.push_back(curve);
    for (const auto& [round, value] : MeanCurve(curves))
      csv += CsvLine({CsvField(setting.label), fmt::format("{}", round), fmt::format("{}", value.runs),
                      CsvField(value.mean), value.runs > 1 ? CsvField(value.deviation) : ""});
  }
  return csv;
}

std::string ResultsCsv(const Comparison& comparison) {
  std::string csv = "setting,metric,runs,last_mean,last_deviation,best_mean,best_deviation\n";
  for (const ComparedSetting& setting : comparison.settings) {
    for (const std::string& metric : comparison.metrics) {
      const Spread last = LastOf(comparison, setting, metric), best = BestOf(comparison, setting, metric);
      if (last.runs == 0) continue;
      const bool several = last.runs > 1;
      csv += CsvLine({CsvField(setting.label), CsvField(metric), fmt::format("{}", last.runs), CsvField(last.mean),
                      several ? CsvField(last.deviation) : "", CsvField(best.mean),
                      several ? CsvField(best.deviation) : ""});
    }
  }
  return csv;
}

std::string DifferencesCsv(const Comparison& comparison) {
  std::vector<std::string> fields = {"key"};
  for (const ComparedSetting& setting : comparison.settings) fields.push_back(CsvField(setting.label));
  std::string csv = CsvLine(fields);
  for (const std::string& key : comparison.differing) {
    fields = {CsvField(key)};
    for (const ComparedSetting& setting : comparison.settings)
      fields.push_back(CsvField(KeyText(comparison.runs[setting.runs.front()].run, key)));
    csv += CsvLine(fields);
  }
  return csv;
}

StatusOr<std::string> LayersCsv(History& history, const std::string& run_id) {
  RIVULET_ASSIGN_OR_RETURN(const LayerReport report, LoadLayerReport(history, run_id));
  std::string csv = "tensor,shape,norm,change,zeros\n";
  for (const LayerRow& layer : report.layers)
    csv += CsvLine({CsvField(layer.tensor), CsvField(layer.shape), CsvField(layer.norm),
                    report.rounds.size() > 1 ? CsvField(layer.change) : "", CsvField(layer.zeros)});
  return csv;
}

StatusOr<std::string> ConfigurationCsv(History& history, const std::string& run_id) {
  RIVULET_ASSIGN_OR_RETURN(const RunOverview run, LoadOverview(history, run_id, OverviewParts::kWithoutClients));
  std::string csv = "key,value\n";
  for (const auto& [key, value] : run.keys) csv += CsvLine({CsvField(key), CsvField(value)});
  return csv;
}

// The rows of a statement, as CSV.
StatusOr<std::string> Rows(History& history, const std::string& sql, std::initializer_list<SqlValue> values) {
  RIVULET_ASSIGN_OR_RETURN(const SqlAnswer answer, history.Ask(sql, values));
  return CsvOf(answer);
}

}  // namespace

StatusOr<std::string> TableCsv(std::span<const PlacedRun> runs, const HttpRequest& request) {
  if (runs.empty()) return InvalidArgument("a table is of a run; add run=RUN to the address");
  const std::string of = request.Parameter("of");
  if (of == "curve") return CurveCsv(runs, request.Parameter("metric"));
  if (of == "results" || of == "differences") {
    RIVULET_ASSIGN_OR_RETURN(const Comparison comparison, LoadComparison(runs));
    return of == "results" ? ResultsCsv(comparison) : DifferencesCsv(comparison);
  }
  History& history = runs.front().history;
  RIVULET_ASSIGN_OR_RETURN(const RunRow run, history.ResolveRun(runs.front().run));
  const std::string client = request.Parameter("client");
  if (of == "rounds")
    return Rows(history, "SELECT * FROM rounds WHERE run_id = ? ORDER BY round, attempt", {run.run_id});
  if (of == "clients")
    return Rows(history, "SELECT * FROM client_reliability WHERE run_id = ? ORDER BY client_id", {run.run_id});
  if (of == "log") return Rows(history, "SELECT * FROM events WHERE run_id = ? ORDER BY at", {run.run_id});
  if (of == "configuration") return ConfigurationCsv(history, run.run_id);
  if (of == "layers") return LayersCsv(history, run.run_id);
  if (of == "tasks" && !client.empty())
    return Rows(history, "SELECT * FROM client_rounds WHERE run_id = ? AND client_id = ? ORDER BY round, attempt",
                {run.run_id, client});
  if (of == "tasks")
    return Rows(history, "SELECT * FROM client_rounds WHERE run_id = ? AND round = ? ORDER BY attempt, client_id",
                {run.run_id, request.Number("round")});
  return InvalidArgument("a run has no table '{}'", of);
}

StatusOr<std::string> RunsCsv(History& history) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<ListedRun> runs, LoadListedRuns(history));
  const std::vector<std::string> telling = TellingKeys(runs);
  std::vector<std::string> fields = {"run_id",        "name",          "status", "algorithm", "learning_rate", "seed",
                                     "best_accuracy", "last_accuracy", "rounds", "seconds",   "created_at",    "tags"};
  for (const std::string& key : telling) fields.push_back(CsvField(key));
  std::string csv = CsvLine(fields);
  const auto number = [](const std::optional<double>& value) { return value ? CsvField(*value) : std::string(); };
  for (const ListedRun& run : runs) {
    fields = {CsvField(run.row.run_id),
              CsvField(run.row.name),
              run.row.status,
              CsvField(KeyText(run, kAlgorithmKey)),
              CsvField(KeyText(run, kLearningRateKey)),
              fmt::format("{}", run.row.seed),
              number(run.row.best_accuracy),
              number(run.row.last_accuracy),
              fmt::format("{}", run.row.rounds),
              CsvField(run.row.seconds),
              run.row.created_at,
              CsvField(Join(run.tags, " "))};
    for (const std::string& key : telling) fields.push_back(CsvField(KeyText(run, key)));
    csv += CsvLine(fields);
  }
  return csv;
}

}  // namespace rivulet
