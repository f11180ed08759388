// rivulet plan: the clients' work in a run, as a file that can be inspected before it is run.
#include "federated/plan/plan.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>

#include "certificates/author.h"
#include "certificates/key.h"
#include "certificates/private_files.h"
#include "cli/command.h"
#include "cli/run/options.h"
#include "client/agent/plan_facts.h"
#include "engine/base/file_system.h"
#include "engine/base/join.h"
#include "engine/base/table.h"
#include "setup/blame_model.h"
#include "setup/plan_file.h"
#include "setup/run_setup.h"

namespace rivulet {
namespace {

struct PlanBuildOptions {
  ScenarioOptions run;
  std::string out;
};

struct PlanSignOptions {
  std::string file, key, out;
};

struct PlanShowOptions {
  std::string file;
  bool json = false;
};

Status BuildPlanFile(const PlanBuildOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(Scenario scenario, LoadScenario(options.run));
  RunSetup setup(scenario);
  const StatusOr<std::shared_ptr<const Plan>> plan = setup.plan();
  if (!plan.ok()) return BlameModel(scenario, plan.status());
  RIVULET_RETURN_IF_ERROR(WritePlanFile(FileSystem::Default(), options.out, **plan, scenario));
  fmt::print("{}: plan '{}', {} bytes, {}digest {}\n", options.out, (*plan)->name(), (*plan)->bytes().size(),
             (*plan)->external() ? "external training, " : "", (*plan)->digest().Hex());
  fmt::print("{}: the keys that it was built from, for `rivulet coordinator --plan`\n", PlanKeysPath(options.out));
  return absl::OkStatus();
}

std::string FeatureText(const FeatureSpec& feature) {
  const char* const encoding = feature.encoding == FeatureSpec::Encoding::kUint8   ? "uint8"
                               : feature.encoding == FeatureSpec::Encoding::kFloat ? "float32"
                                                                                   : "int64";
  return fmt::format("{} {}{}", feature.feature, encoding, feature.shape.ToString());
}

// Ops by type, each once: they limit the effects of a foreign graph.
std::string OpsText(const std::shared_ptr<const Graph>& graph) {
  return graph == nullptr ? "none" : Join(OpsOf(*graph), ", ");
}

std::string AuthorField(const Plan& plan) {
  const PlanAuthor author = AuthorOf(plan);
  if (author.text.empty()) return "unsigned";
  return author.good ? author.text : author.text + ", whose signature this is not";
}

Fields FieldsOf(const Plan& plan) {
  const ModelLayout& layout = *plan.layout();
  const AggregationSpec& sum = plan.aggregation();
  std::vector<std::string> features;
  for (const FeatureSpec& feature : plan.features()) features.push_back(FeatureText(feature));
  Fields fields = {{"plan", plan.name()},
                   {"digest", plan.digest().Hex()},
                   {"author", AuthorField(plan)},
                   {"format", int64_t{plan.format()}},
                   {"bytes", static_cast<int64_t>(plan.bytes().size())},
                   {"training", plan.external() ? "external: it has no graph, and its clients train in their own way"
                                                : "by its graphs"},
                   {"kernels", std::string(plan.compile_options().kernels.portable ? "portable" : "native")},
                   {"variables", static_cast<int64_t>(layout.slices().size())},
                   {"update_elements", layout.update_elements()},
                   {"features", Join(features, ", ")},
                   {"aggregation", sum.rule},
                   {"updates_per_version", sum.updates_per_version},
                   {"largest_weight", sum.max_weight}};
  if (layout.base()) {
    fields.push_back({"base", layout.base()->Hex()});
    fields.push_back({"base_variables", std::ssize(layout.base_variables())});
  }
  if (sum.secure.on()) {
    fields.push_back({"secure", sum.secure.protocol});
    fields.push_back({"min_survivors", sum.secure.min_survivors});
  }
  for (const PartSpec& part : sum.parts) {
    const std::string of = sum.parts.size() == 1 ? "" : fmt::format("{}.", part.name);
    std::vector<std::string> codec = {part.codec};
    for (const auto& [setting, value] : part.codec_settings) codec.push_back(fmt::format("{} = {}", setting, value));
    if (part.error_feedback) codec.push_back("what it leaves out is added to the next update");
    fields.push_back({of + "codec", Join(codec, ", ")});
    fields.push_back({of + "largest_value", fmt::format("2^{}", part.value_bits)});
    fields.push_back({of + "resolution_of_sum", fmt::format("2^-{}", sum.fraction_bits(part))});
  }
  for (const StateVector& state : plan.flat_names().state) {
    fields.emplace_back(fmt::format("keeps_{}", state.name), fmt::format("{} numbers, at first {}", layout.parameters(),
                                                                         state.from_base ? "the model's" : "zeros"));
  }
  for (const TaskKind kind : {TaskKind::kTrain, TaskKind::kEvaluate}) {
    const LocalProgram* const program = plan.program(kind);
    if (program == nullptr) continue;
    for (size_t i = 0; i < program->passes.size(); ++i) {
      const LocalPass& pass = program->passes[i];
      const std::string name = fmt::format("{}_pass_{}", Name(kind), i + 1);
      fields.emplace_back(name, fmt::format("data set '{}', {} epoch{}{}, batches of {}{}{}", pass.dataset, pass.epochs,
                                            pass.epochs == 1 ? "" : "s",
                                            pass.max_steps > 0 ? fmt::format(" or {} steps", pass.max_steps) : "",
                                            pass.batch_size, pass.shuffle ? " shuffled" : "",
                                            plan.external()            ? ""
                                            : pass.gradient_by.empty() ? ", gradient by nothing"
                                                                       : ", gradient by " + pass.gradient_by));
      if (plan.external()) continue;
      if (pass.models.size() > 1) {
        std::vector<std::string> buffers;
        for (const ModelInstance& instance : pass.models) buffers.push_back(instance.buffer);
        fields.emplace_back(name + "_models", Join(buffers, ", "));
      }
      if (pass.loss != nullptr) fields.emplace_back(name + "_loss", OpsText(pass.loss));
      fields.emplace_back(name + "_input", OpsText(pass.input));
      fields.emplace_back(name + "_begin", OpsText(pass.begin));
      fields.emplace_back(name + "_step", OpsText(pass.step));
      fields.emplace_back(name + "_end", OpsText(pass.end));
    }
    for (const PieceSpec& mechanism : program->mechanisms) {
      std::vector<std::string> settings;
      for (const auto& [setting, value] : mechanism.settings) settings.push_back(setting + " = " + ToToml(value));
      fields.emplace_back(fmt::format("{}_{}", Name(kind), mechanism.name), Join(settings, ", "));
    }
    for (const auto& [part, source] : program->parts) {
      fields.emplace_back(fmt::format("{}_part_{}", Name(kind), part),
                          source.from + (source.less.empty() ? "" : " - " + source.less));
    }
  }
  return fields;
}

Status ShowPlanFile(const PlanShowOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(std::string bytes, FileSystem::Default().ReadAll(options.file));
  const StatusOr<std::shared_ptr<const Plan>> plan = Plan::Open(std::move(bytes));
  if (!plan.ok()) return Annotate(plan.status(), options.file);
  const Fields fields = FieldsOf(**plan);
  fmt::print("{}", options.json ? JsonObject(fields) + "\n" : FieldLines(fields));
  return absl::OkStatus();
}

Status SignPlan(const PlanSignOptions& options) {
  FileSystem& fs = FileSystem::Default();
  RIVULET_ASSIGN_OR_RETURN(std::string bytes, fs.ReadAll(options.file));
  // An invalid plan must not be signed.
  const Status opened = Plan::Open(bytes).status();
  if (!opened.ok()) return Annotate(opened, options.file);
  RIVULET_RETURN_IF_ERROR(CheckPrivate(options.key));
  RIVULET_ASSIGN_OR_RETURN(const std::string pem, fs.ReadAll(options.key));
  RIVULET_ASSIGN_OR_RETURN(const KeyHandle key, ReadKey(pem, options.key));
  RIVULET_ASSIGN_OR_RETURN(const std::string author, AuthorOf(key.get(), options.key));
  const std::string_view unsigned_plan = SignatureOf(bytes).plan;  // an older signature is dropped
  RIVULET_ASSIGN_OR_RETURN(const std::string signature, Sign(key.get(), unsigned_plan));
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan,
                           Plan::Open(WithSignature(unsigned_plan, author, signature)));
  const std::string& out = options.out.empty() ? options.file : options.out;
  RIVULET_RETURN_IF_ERROR(WriteSignedPlan(fs, options.file, out, *plan));
  fmt::print("{}: plan '{}', {} bytes, signed by {}, digest {}\n", out, plan->name(), plan->bytes().size(),
             AuthorText(author), plan->digest().Hex());
  return absl::OkStatus();
}

const RegisterCommand kPlan(45, [] {
  auto build = std::make_shared<PlanBuildOptions>();
  Command build_command{.name = "build",
                        .summary = "Write the plan of a scenario: the bytes that its clients will receive.",
                        .example = "rivulet plan build quickstart --out quickstart.plan"};
  build_command.Positional("SCENARIO.toml", &build->run.scenario, "the scenario with model, algorithm and settings")
      .Repeated("--set", "KEY=VALUE", &build->run.sets,
                "set a key of the scenario, such as client.epochs=5; repeatable")
      .Required("--out", "FILE", &build->out, "the file to write; FILE.keys.toml beside it is for the coordinator");
  build_command.run = [build] { return BuildPlanFile(*build); };

  auto show = std::make_shared<PlanShowOptions>();
  Command show_command{
      .name = "show",
      .summary = "Print the work that a plan gives its clients: passes, ops, parts, sums and their resolution.",
      .example = "rivulet plan show quickstart.plan"};
  show_command.Positional("FILE", &show->file, "a plan, of `plan build` or beside the models of a run")
      .Flag("--json", &show->json, "print it as one JSON object");
  show_command.run = [show] { return ShowPlanFile(*show); };

  auto sign = std::make_shared<PlanSignOptions>();
  Command sign_command{.name = "sign",
                       .summary = "Sign a plan as its author, for sites that accept only known authors.",
                       .example =
                           "rivulet plan sign quickstart.plan --key author.key\n"
                           "  rivulet coordinator quickstart --plan quickstart.plan --listen "
                           "0.0.0.0:7000 --tls coordinator"};
  sign_command.Positional("FILE", &sign->file, "a plan, of `plan build`")
      .Required("--key", "FILE", &sign->key, "the author's key, of `rivulet ca author`")
      .Option("--out", "FILE", &sign->out, "the signed plan to write, with its keys beside it [in place]");
  sign_command.run = [sign] { return SignPlan(*sign); };

  Command plan{.name = "plan",
               .summary = "Build, sign and inspect plans, the signed descriptions of clients' work.",
               .example = "rivulet plan show quickstart.plan"};
  plan.subcommands.push_back(std::move(build_command));
  plan.subcommands.push_back(std::move(show_command));
  plan.subcommands.push_back(std::move(sign_command));
  return plan;
});

}  // namespace
}  // namespace rivulet
