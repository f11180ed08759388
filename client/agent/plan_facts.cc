#include "client/agent/plan_facts.h"

#include <algorithm>
#include <span>
#include <utility>

#include "certificates/author.h"
#include "engine/base/join.h"
#include "engine/graph/function.h"

namespace rivulet {
namespace {

void AddOps(const Graph& graph, std::set<std::string, std::less<>>& ops) {
  for (const auto& node : graph.nodes()) ops.emplace(node->type());
  for (const auto& [name, function] : graph.functions()) AddOps(*function->body, ops);
}

std::string_view EncodingText(FeatureSpec::Encoding encoding) {
  switch (encoding) {
    case FeatureSpec::Encoding::kUint8:
      return "uint8";
    case FeatureSpec::Encoding::kFloat:
      return "float32";
    case FeatureSpec::Encoding::kInt64:
      break;
  }
  return "int64";
}

std::string PassText(const LocalPass& pass) {
  return fmt::format("{} epoch{}{} in batches of {}", pass.epochs, pass.epochs == 1 ? "" : "s",
                     pass.max_steps > 0 ? fmt::format(" or {} steps", pass.max_steps) : "", pass.batch_size);
}

// "clip (norm = 1), noise (…)": native stages, in this order, over all sent values.
std::string MechanismsText(const LocalProgram& program) {
  std::vector<std::string> texts;
  for (const PieceSpec& mechanism : program.mechanisms) {
    std::vector<std::string> settings;
    for (const auto& [setting, value] : mechanism.settings) settings.push_back(setting + " = " + ToToml(value));
    texts.push_back(fmt::format("{} ({})", mechanism.name, Join(settings, ", ")));
  }
  return Join(texts, ", ");
}

// `declared`: by graphs of the plan.
std::string SentText(const AggregationSpec& sum, std::span<const std::string> declared) {
  std::vector<std::string> sent;
  for (const PartSpec& part : sum.parts) {
    const std::string where =
        part.only_where ? fmt::format(", where '{}' is {}", part.only_where->scalar, part.only_where->value) : "";
    sent.push_back(fmt::format("'{}' ({} numbers as {}{})", part.name, part.elements, part.codec, where));
  }
  for (const ScalarSpec& scalar : sum.scalars) sent.push_back(fmt::format("the number '{}'", scalar.name));
  for (const std::string& name : declared) sent.push_back(fmt::format("the number '{}'", name));
  sent.push_back("how many examples and steps there were, and how long they took");
  return Join(sent, ", ");
}

}  // namespace

std::set<std::string, std::less<>> OpsOf(const Graph& graph) {
  std::set<std::string, std::less<>> ops;
  AddOps(graph, ops);
  return ops;
}

std::set<std::string, std::less<>> OpsOf(const Plan& plan) {
  std::set<std::string, std::less<>> ops;
  if (plan.external()) return ops;
  AddOps(plan.model().graph, ops);
  for (const TaskKind kind : {TaskKind::kTrain, TaskKind::kEvaluate}) {
    const LocalProgram* const program = plan.program(kind);
    if (program == nullptr) continue;
    for (const LocalPass& pass : program->passes) {
      for (const auto& graph : {pass.loss, pass.input, pass.begin, pass.step, pass.end})
        if (graph != nullptr) AddOps(*graph, ops);
    }
  }
  return ops;
}

int64_t EpochsOf(const Plan& plan) {
  int64_t epochs = 0;
  for (const LocalPass& pass : plan.training().passes) epochs += pass.epochs;
  return epochs;
}

PlanAuthor AuthorOf(const Plan& plan) {
  const PlanSignature& signature = plan.signature();
  if (signature.author.empty()) return {};
  return {AuthorText(signature.author), IsSignedBy(signature.author, signature.plan, signature.signature)};
}

std::vector<std::pair<std::string, std::string>> TellPlan(const Plan& plan) {
  const PlanAuthor author = AuthorOf(plan);
  std::vector<std::pair<std::string, std::string>> told = {
      {"plan", plan.name()},
      {"digest", plan.digest().Hex()},
      {"author", author.text.empty() ? "unsigned"
                                     : fmt::format("{}{}", author.text,
                                                   author.good ? "" : ", whose signature this is not: do not run it")}};
  std::vector<std::string> columns;
  for (const FeatureSpec& feature : plan.features())
    columns.push_back(
        fmt::format("{} ({}{})", feature.feature, EncodingText(feature.encoding), feature.shape.ToString()));
  told.emplace_back("reads", fmt::format("of the data set '{}': {}", plan.dataset(),
                                         plan.external() ? "read by the client's own code" : Join(columns, ", ")));
  for (const auto& [kind, what] : {std::pair(TaskKind::kTrain, "trains"), std::pair(TaskKind::kEvaluate, "measures")}) {
    const LocalProgram* const program = plan.program(kind);
    if (program == nullptr) continue;
    std::vector<std::string> passes;
    for (const LocalPass& pass : program->passes) passes.push_back(PassText(pass));
    told.emplace_back(what, Join(passes, ", then "));
  }
  told.emplace_back("ops", Join(OpsOf(plan), ", "));
  std::vector<std::string> kept;
  for (const StateVector& state : plan.flat_names().state)
    kept.push_back(fmt::format("'{}' ({} numbers)", state.name, plan.layout()->parameters()));
  if (kept.empty() && plan.keeps_state()) kept.push_back("personal variables, or the unsent rest of updates");
  told.emplace_back("keeps", kept.empty() ? "nothing from round to round" : Join(kept, ", "));
  if (const std::string before = MechanismsText(plan.training()); !before.empty()) told.emplace_back("before", before);
  told.emplace_back("sends", SentText(plan.aggregation(), plan.flat_names().declared));
  if (const SecureSum& sum = plan.aggregation().secure; sum.on()) {
    told.emplace_back("hides", sum.protocol == "arithmetic"
                                   ? "nothing: sums by 'arithmetic' have no keys"
                                   : fmt::format("the update, in a sum of at least {} clients by {}; up to {} clients "
                                                 "may collude with the coordinator",
                                                 sum.min_survivors, sum.protocol, sum.max_colluding));
  }
  if (const std::optional<PrivacyClaim>& claim = plan.privacy()) {
    told.emplace_back("privacy",
                      fmt::format("the coordinator claims noise of {:g} times the clip on sums of {} updates{}; a site "
                                  "cannot verify it",
                                  claim->noise_multiplier, claim->cohort,
                                  claim->sampling_rate < 1
                                      ? fmt::format(", from clients drawn at the rate {:g}", claim->sampling_rate)
                                      : ""));
  }
  if (plan.program(TaskKind::kEvaluate) != nullptr)
    told.emplace_back("sends_measured", SentText(plan.aggregation(TaskKind::kEvaluate), {}));
  return told;
}

}  // namespace rivulet
