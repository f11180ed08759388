#include "cli/model/evaluate.h"

#include <filesystem>
#include <memory>

#include "cli/model/run_model.h"
#include "cli/run/prepare_data.h"
#include "cli/table.h"
#include "coordinator/stored_run.h"
#include "engine/base/file_system.h"
#include "federated/weights/model.h"
#include "setup/run_setup.h"

namespace rivulet {
namespace {

struct EvaluateArguments {
  std::string what, data;
  std::string db = "./rivulet.sqlite";
  bool json = false;
};

// With the plan that the run's clients had: what is measured is what a round of that run would have reported.
Status Evaluate(const EvaluateArguments& arguments) {
  RIVULET_ASSIGN_OR_RETURN(const RunModel found, FindRunModel(arguments.db, arguments.what));
  RIVULET_ASSIGN_OR_RETURN(
      Scenario scenario,
      Scenario::ParseStored(found.config, fmt::format("the stored configuration of run {}", found.run_id)));
  if (!arguments.data.empty()) {
    if (!FileSystem::Default().Exists(arguments.data)) return NotFound("there is no file '{}'", arguments.data);
    scenario.data.test = std::filesystem::absolute(arguments.data).string();
  } else if (scenario.data.test.empty()) {
    return UsageError("run {} has no test set; give one with --data FILE", found.run_id);
  } else {
    RIVULET_RETURN_IF_ERROR(PrepareDataHere(scenario));
  }
  const std::string test = scenario.data.test;
  RunSetupOptions options;
  RIVULET_ASSIGN_OR_RETURN(options.plan, PlanOfStoredRun(arguments.db, found.run_id));
  RunSetup setup(std::move(scenario), std::move(options));
  RIVULET_ASSIGN_OR_RETURN(const auto plan, setup.plan());
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, FileSystem::Default().ReadAll(found.path));
  const StatusOr<std::shared_ptr<Model>> model = ModelFromSafetensors(plan->layout(), bytes);
  if (!model.ok()) return Annotate(model.status(), found.path);
  RIVULET_ASSIGN_OR_RETURN(const auto evaluator, setup.evaluator());
  RIVULET_ASSIGN_OR_RETURN(const auto measures, evaluator->Evaluate(**model));
  Fields fields = {{"run_id", found.run_id}, {"round", found.round}, {"data", test}};
  for (const auto& [name, measure] : measures) {
    fields.emplace_back(name, measure.value);
    if (measure.right && measure.total) {
      fields.emplace_back(name + "/right", *measure.right);
      fields.emplace_back(name + "/total", *measure.total);
    }
  }
  fmt::print("{}", arguments.json ? JsonObject(fields) + "\n" : FieldLines(fields));
  return absl::OkStatus();
}

}  // namespace

Command ModelEvaluateCommand() {
  auto arguments = std::make_shared<EvaluateArguments>();
  Command command{.name = "evaluate",
                  .summary = "Measure a model of a run on its test set, or on other data of the same kind.",
                  .example =
                      "rivulet model evaluate latest:best\n"
                      "  rivulet model evaluate mnist-fedavg:20 --data holdout.tfrecord"};
  command.Positional("RUN[:ROUND]", &arguments->what, kRunModelHelp)
      .Option("--data", "FILE", &arguments->data, "a TFRecord file [the run's test set]")
      .Option("--db", "FILE", &arguments->db, "the history [./rivulet.sqlite]")
      .Flag("--json", &arguments->json, "print one JSON object");
  command.run = [arguments] { return Evaluate(*arguments); };
  return command;
}

}  // namespace rivulet
