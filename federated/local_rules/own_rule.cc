#include "federated/local_rules/own_rule.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "engine/graph/variable_name.h"
#include "engine/graphdef/graph_def.h"
#include "federated/local_rules/rule_names.h"
#include "federated/local_rules/rule_ops.h"
#include "federated/local_rules/rule_writer.h"
#include "federated/plan/flat_names.h"

namespace rivulet {
namespace {

constexpr GraphLimits kLimits = {.bytes = size_t{16} << 20, .nodes = 100'000};

bool IsVector(const TensorSpec& spec) { return spec.shape.known_rank() && spec.shape.rank() == 1; }
bool IsNumber(const TensorSpec& spec, DType dtype) { return spec.dtype == dtype && spec.shape == Shape{}; }

// Whether a name after a prefix is valid: it becomes part of the name of a plan's variable.
bool IsName(std::string_view name) {
  return !name.empty() && name.size() <= 255 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

std::string_view After(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : std::string_view();
}

void Insert(std::vector<std::string>& names, std::string_view name) {
  const auto at = std::ranges::lower_bound(names, name);
  if (at == names.end() || *at != name) names.insert(at, std::string(name));
}

std::map<std::string, std::string> SlotsOf(const std::vector<std::string>& memory) {
  std::map<std::string, std::string> slots;
  for (size_t i = 0; i < memory.size(); ++i) {
    slots[fmt::format("{}{}", kMemoryPrefix, memory[i])] = fmt::format("{}{}", kSlotPrefix, i);
  }
  return slots;
}

}  // namespace

StatusOr<OwnRule> OwnRule::Open(std::string_view graph_def) {
  OwnRule rule;
  RIVULET_ASSIGN_OR_RETURN(rule.graph_, ParseGraph(graph_def, {.limits = kLimits, .roots = {}}));
  RIVULET_RETURN_IF_ERROR(rule.Check());
  return rule;
}

Status OwnRule::Check() {
  std::set<const Node*> assigned;
  for (const auto& node : graph_.nodes()) {
    if (node->type() == "AssignVariableOp") assigned.insert(node->input(0).node);
  }
  for (const auto& node : graph_.nodes()) RIVULET_RETURN_IF_ERROR(CheckNode(*node, assigned.contains(node.get())));
  return CheckTargets();
}

// Every value must be a float32 vector, whose length only the model defines, or a number.
Status OwnRule::CheckNode(const Node& node, bool assigned) {
  const std::string_view type = node.type();
  if (type == "NoOp" || type == "AssignVariableOp") return absl::OkStatus();
  if (type == "VarHandleOp") return CheckVariable(node, assigned);
  const TensorSpec& gives = node.outputs().empty() ? TensorSpec{} : node.outputs()[0];
  const bool setting = node.name().starts_with(kSettingPrefix);
  if (type == "Placeholder" && node.name() == kRateInput && IsNumber(gives, DType::kFloat64)) return absl::OkStatus();
  if (type == "Const") {
    const Tensor& value = node.attr<Tensor>("value");
    const bool axis = gives.dtype == DType::kInt32 && gives.shape == Shape{1} && value.flat<int32_t>()[0] == 0;
    if (setting && IsNumber(gives, DType::kFloat64) && std::isfinite(value.flat<double>()[0]) &&
        IsName(After(node.name(), kSettingPrefix))) {
      settings_[std::string(After(node.name(), kSettingPrefix))] = value.flat<double>()[0];
      return absl::OkStatus();
    }
    if (!setting && (axis || IsNumber(gives, DType::kFloat64) || IsNumber(gives, DType::kFloat32))) {
      return absl::OkStatus();
    }
    return InvalidArgument(
        "the rule's constant '{}' is {}{}; it can be a float32 or float64 number, a setting finite, "
        "float64 and called '{}NAME'",
        node.name(), Name(gives.dtype), gives.shape.ToString(), kSettingPrefix);
  }
  if (type != "ReadVariableOp" && FindRuleOp(type) == nullptr) {
    return InvalidArgument("the rule has a {} '{}'; a rule is made of variables, constants and {}", type, node.name(),
                           RuleOpNames());
  }
  const bool keeps = type == "Sum" && (node.attr<bool>("keep_dims") || node.input(1).node->type() != "Const");
  const bool vector = IsVector(gives) && (gives.dtype == DType::kFloat32 || gives.dtype == DType::kBool);
  const bool number = gives.shape == Shape{} &&
                      (gives.dtype == DType::kFloat32 || gives.dtype == DType::kFloat64 || gives.dtype == DType::kBool);
  if ((vector || number) && !keeps) return absl::OkStatus();
  return InvalidArgument("{} '{}' of the rule gives {}{}; a rule has float32 vectors, numbers, and comparisons of them",
                         type, node.name(), Name(gives.dtype), gives.shape.ToString());
}

Status OwnRule::CheckVariable(const Node& node, bool assigned) {
  const std::string_view name = VariableName(node);
  const bool number = name == "round" || name == "steps";
  bool known = number || name == "params" || name == "base_params" || name == "grads";
  bool written = name == "params";
  const std::tuple<std::string_view, std::vector<std::string>*, bool> kinds[] = {{kMemoryPrefix, &memory_, true},
                                                                                 {kStatePrefix, &state_, true},
                                                                                 {kBroadcastPrefix, &broadcast_, false},
                                                                                 {kUpdatePrefix, &update_, true}};
  for (const auto& [prefix, names, writable] : kinds) {
    const std::string_view own = After(name, prefix);
    if (!IsName(own)) continue;
    known = true;
    written = writable;
    Insert(*names, own);
  }
  if (name == "base_params") reads_base_ = true;
  if (!known) {
    return InvalidArgument(
        "the rule has a variable '{}'; a rule has params, base_params, grads, round, steps, "
        "memory/NAME, state/NAME, broadcast/NAME and update/NAME",
        name);
  }
  if (assigned && !written) return InvalidArgument("the rule assigns to '{}', which can only be read", name);
  const DType dtype = number ? DType::kFloat64 : DType::kFloat32;
  const Shape shape = number ? Shape{} : Shape{kUnknownDim};
  if (VariableDType(node) != dtype || node.attr<Shape>("shape") != shape) {
    return InvalidArgument("the rule takes '{}' for {}{}, and it is {}{}", name, Name(VariableDType(node)),
                           node.attr<Shape>("shape").ToString(), Name(dtype), shape.ToString());
  }
  return absl::OkStatus();
}

namespace {

// Checks the nodes that an output or a target may depend on, and records which exist.
class TargetCheck {
 public:
  TargetCheck(const Graph& graph, Node* target) : name_(target->name()) {
    for (const Node* node : graph.TopologicalOrder({&target, 1})) {
      if (node->type() == "ReadVariableOp") reads_.emplace_back(VariableName(*node->input(0).node));
      if (node->type() == "AssignVariableOp") assigns_.push_back(node);
      if (node->type() == "NoOp" && node != target) others_ = true;
    }
  }

  bool Reads(std::string_view variable) const { return std::ranges::find(reads_, variable) != reads_.end(); }

  Status CheckReads(std::initializer_list<std::string_view> not_these) const {
    for (const std::string_view variable : not_these) {
      if (!Reads(variable)) continue;
      return InvalidArgument("the rule's '{}' reads '{}', which is not there then", name_, variable);
    }
    return absl::OkStatus();
  }

  // `target` must depend only on assignments, each to another variable, none of those in `not_these`.
  Status CheckAssigns(const Node& target, std::initializer_list<std::string_view> not_these) const {
    std::vector<std::string_view> written;
    for (const Node* assign : assigns_) {
      const std::string_view variable = VariableName(*assign->input(0).node);
      const bool waited = std::ranges::find(target.control_inputs(), assign) != target.control_inputs().end();
      const bool forbidden =
          std::ranges::any_of(not_these, [&](std::string_view prefix) { return variable.starts_with(prefix); });
      if (waited && !forbidden && std::ranges::find(written, variable) == written.end()) {
        written.push_back(variable);
        continue;
      }
      return InvalidArgument("the rule's '{}' assigns to '{}' where it cannot, or twice", name_, variable);
    }
    if (!others_ && target.inputs().empty() && written.size() == target.control_inputs().size())
      return absl::OkStatus();
    return InvalidArgument("the rule's '{}' waits for something else than assignments", name_);
  }

  Status CheckOutput(const Node& node, bool vector) const {
    const TensorSpec gives = node.outputs().empty() ? TensorSpec{} : node.outputs()[0];
    if (assigns_.empty() && !others_ &&
        (vector ? IsVector(gives) && gives.dtype == DType::kFloat32 : IsNumber(gives, DType::kFloat64))) {
      return absl::OkStatus();
    }
    return InvalidArgument("the rule's '{}' is {}{}; it must be a {}, and wait for nothing", name_, Name(gives.dtype),
                           gives.shape.ToString(), vector ? "float32 vector" : "float64 number");
  }

 private:
  const std::string name_;
  std::vector<std::string_view> reads_;
  std::vector<const Node*> assigns_;
  bool others_ = false;
};

}  // namespace

Status OwnRule::CheckTargets() const {
  Node* const gradient = graph_.Find(kGradientOutput);
  Node* const loss = graph_.Find(kLossOutput);
  Node* const step = graph_.Find(kStepTarget);
  Node* const end = graph_.Find(kEndTarget);
  if (gradient == nullptr && loss == nullptr && step == nullptr && end == nullptr) {
    return InvalidArgument("the rule has none of the nodes '{}', '{}', '{}' and '{}', so that it does nothing",
                           kGradientOutput, kLossOutput, kStepTarget, kEndTarget);
  }
  if (gradient != nullptr) {
    const TargetCheck check(graph_, gradient);
    RIVULET_RETURN_IF_ERROR(check.CheckOutput(*gradient, true));
    RIVULET_RETURN_IF_ERROR(check.CheckReads({"steps"}));
  }
  if (loss != nullptr) {
    const TargetCheck check(graph_, loss);
    RIVULET_RETURN_IF_ERROR(check.CheckOutput(*loss, false));
    RIVULET_RETURN_IF_ERROR(check.CheckReads({"steps", "grads"}));
    if (!check.Reads("params")) {
      return InvalidArgument("the rule's addition to the loss does not depend on params, so it changes no gradient");
    }
  }
  if (step != nullptr) {
    const TargetCheck check(graph_, step);
    RIVULET_RETURN_IF_ERROR(check.CheckReads({"steps"}));
    RIVULET_RETURN_IF_ERROR(check.CheckAssigns(*step, {"params", kUpdatePrefix}));
  }
  if (end == nullptr) return absl::OkStatus();
  const TargetCheck check(graph_, end);
  RIVULET_RETURN_IF_ERROR(check.CheckReads({"grads"}));
  return check.CheckAssigns(*end, {kMemoryPrefix});
}

bool OwnRule::reads_learning_rate() const { return graph_.Find(kRateInput) != nullptr; }
bool OwnRule::ends() const { return graph_.Find(kEndTarget) != nullptr; }

Output OwnRule::Gradient(FlatScope& f, const std::map<std::string, double>& numbers) const {
  const std::map<std::string, std::string> slots = SlotsOf(memory_);
  RuleWriter writer(graph_, numbers, slots, f);
  if (const Node* const loss = graph_.Find(kLossOutput); loss != nullptr) writer.AddToLoss(*loss);
  const Node* const gradient = graph_.Find(kGradientOutput);
  const Output followed = gradient == nullptr ? writer.Gradients() : writer.Vector(*gradient);
  if (const Node* const step = graph_.Find(kStepTarget); step != nullptr) writer.Assign(*step);
  return followed;
}

void OwnRule::AtEnd(FlatScope& f, const std::map<std::string, double>& numbers) const {
  const std::map<std::string, std::string> slots = SlotsOf(memory_);
  if (const Node* const end = graph_.Find(kEndTarget); end != nullptr) {
    RuleWriter(graph_, numbers, slots, f).Assign(*end);
  }
}

std::string Describe(const OwnRule& rule) {
  std::string text;
  for (const auto& [name, value] : rule.settings()) text += fmt::format("setting {} = {}\n", name, value);
  for (const std::string& name : rule.memory()) text += fmt::format("remembers {} from step to step\n", name);
  for (const std::string& name : rule.state()) text += fmt::format("keeps {} from task to task\n", name);
  for (const std::string& name : rule.broadcast()) text += fmt::format("reads {} of the server\n", name);
  for (const std::string& name : rule.update()) text += fmt::format("sends {} beside the model\n", name);
  return text;
}

}  // namespace rivulet
