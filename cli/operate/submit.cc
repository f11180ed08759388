// rivulet submit: begins a run at a running coordinator.
#include <memory>

#include "cli/operate/operate.h"
#include "cli/run/options.h"
#include "cli/run/python_aggregation.h"
#include "engine/base/file_system.h"
#include "engine/base/shown_text.h"
#include "engine/base/table.h"
#include "setup/blame_model.h"
#include "setup/plan_file.h"
#include "setup/run_setup.h"

namespace rivulet {
namespace {

struct SubmitOptions {
  OperatorOptions to;
  std::string scenario, plan;
  std::vector<std::string> sets;
  std::optional<int64_t> rounds;
};

// Faults of the scenario are reported here, before any connection. Files that become part of its plan are sent with the
// plan: they are on the operator's machine.
Status SubmitRun(const SubmitOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(
      Scenario scenario,
      LoadScenario({.scenario = options.scenario, .sets = options.sets, .rounds = options.rounds, .kernels = ""}));
  RunSubmission submission;
  if (!options.plan.empty()) {
    RIVULET_ASSIGN_OR_RETURN(PlanFile file, ReadPlanFile(FileSystem::Default(), options.plan, scenario));
    submission.plan = file.plan->bytes();
    scenario = std::move(file.scenario);
  } else if (PlanHoldsFiles(scenario)) {
    RunSetup setup(scenario);
    const auto plan = setup.plan();
    if (!plan.ok()) return BlameModel(scenario, plan.status());
    submission.plan = (*plan)->bytes();
  }
  if (scenario.algorithm.name == kExternalRule) return AsUsageError(RefuseSubmittedFunction(options.scenario));
  if (!scenario.model.arrays.empty()) {
    RIVULET_ASSIGN_OR_RETURN(submission.arrays, FileSystem::Default().ReadAll(scenario.model.arrays));
  }
  submission.scenario = scenario.ToToml();
  RIVULET_ASSIGN_OR_RETURN(const auto control, ConnectAsOperator(options.to));
  RIVULET_ASSIGN_OR_RETURN(const std::string run_id, control->StartRun({}, submission));
  if (options.to.json) {
    fmt::print("{}\n", JsonObject({{"run_id", run_id}}));
  } else {
    fmt::print("run {} started at {}\n", OneLine(run_id), options.to.coordinator);
  }
  return absl::OkStatus();
}

const RegisterCommand kSubmit(29, [] {
  auto options = std::make_shared<SubmitOptions>();
  Command command{.name = "submit",
                  .summary = "Submit a run to a running coordinator.",
                  .example =
                      "rivulet submit scenario.toml --coordinator fl.example.org:7000 --tls operator-alice\n"
                      "  rivulet submit scenario.toml --plan study.plan --coordinator 127.0.0.1:7000 --insecure"};
  command.Positional("SCENARIO.toml", &options->scenario,
                     "the scenario to run; files of its model and rules are read here, all others, such as data.test, "
                     "on the coordinator's machine");
  AddOperatorOptions(command, &options->to);
  command
      .Option("--plan", "FILE", &options->plan,
              "use this plan of `rivulet plan build` and the keys beside it; the scenario then gives only keys of the "
              "classes operation and place")
      .Repeated("--set", "KEY=VALUE", &options->sets, "set a key of the scenario, such as client.epochs=5; repeatable")
      .Option("--rounds", "N", &options->rounds, "rounds to run; as --set run.rounds=N")
      .Flag("--json", &options->to.json, "print one JSON object");
  command.run = [options] { return SubmitRun(*options); };
  return command;
});

}  // namespace
}  // namespace rivulet
