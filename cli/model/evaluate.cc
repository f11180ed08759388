#include "cli/model/evaluate.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <tuple>

#include "cli/long_work.h"
#include "cli/model/client_report.h"
#include "cli/run/prepare_data.h"
#include "cli/terminal.h"
#include "coordinator/stored_run.h"
#include "engine/base/json.h"
#include "engine/base/numbered_names.h"
#include "engine/base/table.h"
#include "engine/data/record_files.h"
#include "inspect/model_source.h"
#include "inspect/picture/matrix.h"
#include "inspect/run_model.h"
#include "setup/class_names.h"
#include "setup/class_report.h"
#include "setup/partition.h"
#include "setup/run_setup.h"

namespace rivulet {
namespace {

struct EvaluateArguments {
  std::string what, data;
  std::string db = "./rivulet.sqlite";
  std::string confusion;
  std::optional<int64_t> cluster;
  bool classes = false, clients = false, json = false;
};

// With more classes there is no matrix on the terminal.
constexpr int64_t kClassesOnTerminal = 12;

std::string CountText(int64_t count) {
  return count < 100'000 ? fmt::format("{}", count) : fmt::format("{:.0e}", static_cast<double>(count));
}

std::string MatrixText(const ClassReport& report) {
  const size_t width = WidthOfNames(report.names, 8);
  std::string text = fmt::format("{0:>{2}} taken for\n{1:>{2}}", "", "label", width);
  for (int64_t column = 0; column < report.classes; ++column) text += fmt::format(" {:>5}", column);
  text += "\n";
  for (int64_t row = 0; row < report.classes; ++row) {
    text += fmt::format("{:>{}}", NameOrNumber(report.names, row), width);
    for (int64_t column = 0; column < report.classes; ++column) {
      const int64_t count = report.at(row, column);
      text += fmt::format(" {:>5}", count == 0 ? "." : CountText(count));
    }
    text += "\n";
  }
  return text;
}

// The most frequent confusions: "4 taken for 9".
std::string ConfusionsText(const ClassReport& report, size_t most) {
  std::vector<std::tuple<int64_t, int64_t, int64_t>> pairs;
  for (int64_t row = 0; row < report.classes; ++row)
    for (int64_t column = 0; column < report.classes; ++column)
      if (row != column && report.at(row, column) > 0) pairs.emplace_back(report.at(row, column), row, column);
  std::ranges::stable_sort(pairs, std::greater{}, [](const auto& pair) { return std::get<0>(pair); });
  std::string text;
  for (size_t i = 0; i < std::min(most, pairs.size()); ++i)
    text += fmt::format("{}{} for {} ({})", text.empty() ? "" : ", ", NameOrNumber(report.names, std::get<1>(pairs[i])),
                        NameOrNumber(report.names, std::get<2>(pairs[i])), std::get<0>(pairs[i]));
  return text;
}

Table ClassTable(const ClassReport& report) {
  const bool named = !report.names.empty();
  std::vector<Column> columns = {
      {.name = "class"}, {.name = "examples"}, {.name = "precision"}, {.name = "recall"}, {.name = "f1"}};
  if (named) columns.insert(columns.begin() + 1, {.name = "name"});
  Table table(std::move(columns));
  for (int64_t label = 0; label < report.classes; ++label) {
    const ClassMeasures measures = report.OfClass(label);
    std::vector<Cell> row = {label, measures.examples, measures.precision, measures.recall, measures.f1};
    if (named) row.insert(row.begin() + 1, NameOrNumber(report.names, label));
    table.Add(std::move(row));
  }
  return table;
}

Table CalibrationTable(const ClassReport& report) {
  Table table({{.name = "confidence"}, {.name = "examples"}, {.name = "mean_confidence"}, {.name = "accuracy"}});
  for (size_t i = 0; i < report.calibration.size(); ++i) {
    const ClassReport::Bin& bin = report.calibration[i];
    if (bin.examples == 0) continue;
    const auto examples = static_cast<double>(bin.examples);
    table.Add({fmt::format("{:.1f} to {:.1f}", static_cast<double>(i) / 10, static_cast<double>(i + 1) / 10),
               bin.examples, bin.confidence / examples, static_cast<double>(bin.right) / examples});
  }
  return table;
}

void AddReport(const ClassReport& report, Json& json) {
  json["classes"] = ClassTable(report).Rows();
  json["calibration"] = CalibrationTable(report).Rows();
  json["calibration_error"] = report.CalibrationError();
  json["confusion"] = Json::Array();
  for (int64_t row = 0; row < report.classes; ++row) {
    const auto begin = report.counts.begin() + row * report.classes;
    json["confusion"].Append(std::vector<int64_t>(begin, begin + report.classes));
  }
}

void PrintReport(const ClassReport& report) {
  if (report.classes <= kClassesOnTerminal) fmt::print("\n{}", MatrixText(report));
  if (const std::string confused = ConfusionsText(report, 8); !confused.empty())
    fmt::print("\nmost often taken for another: {}\n", confused);
  fmt::print("\n{}\n{}expected calibration error {:.4f}\n", ClassTable(report).Text(ResultColumns()),
             CalibrationTable(report).Text(ResultColumns()), report.CalibrationError());
}

// The same clients with other data: those with keys in it.
void UseForClients(Scenario& scenario) {
  scenario.data.train = scenario.data.test;
  scenario.data.synth = {};
  scenario.data.partition.clients = 0;
}

// With the plan of the run's clients, so the measures equal those of a round of that run.
Status Evaluate(const EvaluateArguments& arguments) {
  if (!arguments.confusion.empty()) {
    if (const Status name = CheckPictureName(arguments.confusion); !name.ok())
      return AsUsageError(Annotate(name, "--confusion"));
  }
  RIVULET_ASSIGN_OR_RETURN(const RunModel found, FindRunModel(arguments.db, arguments.what));
  RIVULET_ASSIGN_OR_RETURN(
      Scenario scenario,
      Scenario::ParseStored(found.config, fmt::format("the stored configuration of run {}", found.run_id)));
  if (arguments.clients && !arguments.data.empty() && !CountsClients(scenario.data.partition))
    return UsageError(
        "--clients with --data FILE needs a run with the partition by_key; leave --data out to measure clients on "
        "their training data");
  if (!arguments.data.empty()) {
    RIVULET_RETURN_IF_ERROR(RecordFilesMatching(arguments.data).status());
    scenario.data.test = std::filesystem::absolute(arguments.data).string();
    if (arguments.clients) UseForClients(scenario);
    scenario.data.tests.clear();
    scenario.data.validation.clear();
    scenario.data.validation_fraction = 0;
  } else if (!MeasuresAnything(scenario.data) && !arguments.clients) {
    return UsageError("run {} has no test set; give one with --data FILE", found.run_id);
  } else {
    RIVULET_RETURN_IF_ERROR(PrepareDataHere(scenario));
  }
  const std::string test = scenario.data.test;
  if (test.empty() && (arguments.classes || !arguments.confusion.empty()))
    return UsageError("run {} has no test set whose classes could be counted; give one with --data FILE", found.run_id);
  scenario.evaluation.every = 1;  // a run without evaluations is measured now
  const int64_t batch_size = scenario.evaluation.batch_size;
  RunSetupOptions options;
  RIVULET_ASSIGN_OR_RETURN(options.plan, PlanOfStoredRun(arguments.db, found.run_id));
  RunSetup setup(std::move(scenario), std::move(options));
  RIVULET_ASSIGN_OR_RETURN(const auto plan, setup.plan());
  RIVULET_ASSIGN_OR_RETURN(const auto model, ReadRunModel(found, plan->layout(), arguments.cluster));
  std::map<std::string, Measure> measures;
  if (MeasuresAnything(setup.scenario().data)) {
    RIVULET_ASSIGN_OR_RETURN(const auto evaluator, setup.evaluator());
    RIVULET_ASSIGN_OR_RETURN(measures, evaluator->Evaluate(*model));
  }
  Fields fields = {{"run_id", found.run_id}, {"round", found.round}};
  if (arguments.cluster) fields.emplace_back("cluster", *arguments.cluster);
  if (!test.empty()) fields.emplace_back("data", test);
  for (const auto& [name, measure] : measures) {
    fields.emplace_back(name, measure.value);
    if (measure.right && measure.total) {
      fields.emplace_back(name + "/right", *measure.right);
      fields.emplace_back(name + "/total", *measure.total);
    }
  }
  std::optional<ClassReport> report;
  if (arguments.classes || !arguments.confusion.empty()) {
    const std::string scores = ScoresOf(plan->model());
    if (scores.empty())
      return FailedPrecondition("run {} has a model without scores by class, whose confusions could be counted",
                                found.run_id);
    RIVULET_ASSIGN_OR_RETURN(const auto dataset, OpenRecordsMatching(test));
    LongWork work("counting classes");
    RIVULET_ASSIGN_OR_RETURN(report, ReportClasses(*plan, dataset, *model, scores, batch_size, work.progress()));
    report->names = ClassNamesOf(setup.scenario(), test);
  }
  if (!arguments.confusion.empty()) {
    const std::string title = fmt::format("{}, round {}", found.run_id, found.round);
    RIVULET_RETURN_IF_ERROR(
        WritePicture(MatrixPicture(title, report->classes, report->counts, report->names), arguments.confusion));
  }
  std::optional<std::vector<ClientMeasures>> clients;
  if (arguments.clients) {
    RIVULET_ASSIGN_OR_RETURN(clients, ReportClients(setup, *model));
  }
  if (arguments.json) {
    Json json = ToJson(fields);
    if (report) AddReport(*report, json);
    if (clients) AddClients(*clients, json);
    fmt::print("{}\n", json.Dump());
  } else {
    fmt::print("{}", FieldLines(fields));
    if (report && arguments.classes) PrintReport(*report);
    if (clients) fmt::print("\n{}", ClientsText(*clients, ResultColumns()));
    if (!arguments.confusion.empty()) fmt::print("{:<13} {}\n", "picture", arguments.confusion);
  }
  return absl::OkStatus();
}

}  // namespace

Command ModelEvaluateCommand() {
  auto arguments = std::make_shared<EvaluateArguments>();
  Command command{.name = "evaluate",
                  .summary = "Measure a model of a run on its test set, or on other data of the same kind.",
                  .example =
                      "rivulet model evaluate latest:best\n"
                      "  rivulet model evaluate mnist-fedavg:20 --data holdout.tfrecord\n"
                      "  rivulet model evaluate latest --classes --confusion confusion.png\n"
                      "  rivulet model evaluate latest --clients"};
  command.Positional("RUN[:ROUND]", &arguments->what, kRunModelHelp)
      .Option("--data", "FILE", &arguments->data, "a TFRecord file, or a pattern of several [the run's test set]")
      .Option("--db", "FILE", &arguments->db, "the history [./rivulet.sqlite]")
      .Option("--cluster", "K", &arguments->cluster, kClusterHelp, {.min = 0})
      .Flag("--classes", &arguments->classes,
            "print a confusion matrix, precision and recall of each class, and calibration")
      .Flag("--clients", &arguments->clients,
            "measure for each client: on its training data, or on its examples in --data (by_key); print the spread")
      .Option("--confusion", "FILE", &arguments->confusion, "the confusion matrix as a picture, .png or .svg")
      .Flag("--json", &arguments->json, "print one JSON object");
  command.run = [arguments] { return Evaluate(*arguments); };
  return command;
}

}  // namespace rivulet
