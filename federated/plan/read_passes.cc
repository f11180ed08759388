#include <algorithm>
#include <set>
#include <utility>

#include "engine/graph/variable_name.h"
#include "engine/graphdef/graph_def.h"
#include "federated/plan/compose_pass.h"
#include "federated/plan/flat_scope.h"
#include "federated/plan/plan_input.h"
#include "federated/plan/plan_reader.h"

namespace rivulet {
namespace {

constexpr int64_t kMaxEpochs = 1'000'000, kMaxBatch = int64_t{1} << 20, kMaxSteps = int64_t{1} << 32;
constexpr int kMaxInstances = 8;

}  // namespace

Status PlanReader::ReadPass(const proto::PassDef& message, LocalPass& pass) {
  RIVULET_RETURN_IF_ERROR(plan_->external() ? CheckHasNoGraphs(message) : ReadModels(message, pass));
  RIVULET_RETURN_IF_ERROR(ReadScalars(message, pass));
  const auto in_range = [](std::string_view what, int64_t value, int64_t low, int64_t high) -> Status {
    if (value >= low && value <= high) return absl::OkStatus();
    return InvalidArgument("the plan asks for {} {}; {} to {} can be done", value, what, low, high);
  };
  RIVULET_RETURN_IF_ERROR(in_range("epochs", message.epochs(), 1, kMaxEpochs));
  RIVULET_RETURN_IF_ERROR(in_range("examples in a batch", message.batch_size(), 1, kMaxBatch));
  RIVULET_RETURN_IF_ERROR(in_range("steps", message.max_steps(), 0, kMaxSteps));
  RIVULET_RETURN_IF_ERROR(CheckName("data set", message.dataset()));
  pass.epochs = message.epochs();
  if (!(message.partial_work() >= 0 && message.partial_work() <= 1)) {
    return InvalidArgument("the plan has a share of {} of its tasks be partial; 0 to 1 can be", message.partial_work());
  }
  pass.partial_work = message.partial_work();
  pass.batch_size = message.batch_size();
  pass.shuffle = message.shuffle();
  pass.max_steps = message.max_steps();
  pass.dataset = message.dataset();
  if (plan_->external()) {
    pass.models.clear();
    pass.gradient_by.clear();
    pass.training = false;
    return absl::OkStatus();
  }
  RIVULET_RETURN_IF_ERROR(Annotate(ComposeForward(*plan_->model_, pass).status(), "a pass of the plan"));
  pass.loss_scale = message.loss_scale();
  if (!pass.loss_scale.empty()) {
    const auto flat = Flat(pass.loss_scale);
    if (!flat.ok()) return Annotate(flat.status(), "the plan's loss scale");
    if (flat->shape != Shape{}) return InvalidArgument("the plan's loss scale '{}' is no scalar", pass.loss_scale);
  }
  if (!pass.gradient_by.empty() && message.step().empty()) {
    return InvalidArgument("a pass of the plan does nothing with its gradients");
  }
  if (pass.gradient_by.empty() && message.step().empty() && pass.scalars.empty()) {
    return InvalidArgument("a pass of the plan neither changes nor reports anything");
  }
  RIVULET_RETURN_IF_ERROR(ReadFlatGraph("begin", message.begin(), !pass.gradient_by.empty(), pass.begin));
  RIVULET_RETURN_IF_ERROR(ReadFlatGraph("step", message.step(), !pass.gradient_by.empty(), pass.step));
  RIVULET_RETURN_IF_ERROR(ReadFlatGraph("end", message.end(), !pass.gradient_by.empty(), pass.end));
  if (message.input().empty()) return absl::OkStatus();
  auto graph = ParseGraph(message.input());
  if (!graph.ok()) return Annotate(graph.status(), "the plan's input graph");
  pass.input = std::make_shared<const Graph>(*std::move(graph));
  return CheckInput(*plan_, pass);
}

// Reads the pass's models and loss, and the buffers by which the loss is differentiated.
Status PlanReader::ReadModels(const proto::PassDef& message, LocalPass& pass) {
  if (message.models().empty() || message.models_size() > kMaxInstances) {
    return InvalidArgument("a pass of the plan has {} instances of the model; a client runs 1 to {}",
                           message.models_size(), kMaxInstances);
  }
  pass.models.clear();
  std::set<std::string> prefixes;
  for (const proto::ModelInstanceDef& instance : message.models()) {
    const bool vector = IsModelVector(instance.buffer()) && Flat(instance.buffer()).ok();
    if (instance.buffer() != "params" && instance.buffer() != "base_params" && !vector) {
      return InvalidArgument(
          "a pass of the plan runs the model over '{}'; it can be run over params, base_params, client state, memory "
          "and broadcast vectors",
          instance.buffer());
    }
    if (instance.prefix().empty() != pass.models.empty() || !prefixes.insert(instance.prefix()).second) {
      return InvalidArgument(
          "a pass of the plan calls an instance of the model '{}'; the first has no name, and the others have one each",
          instance.prefix());
    }
    pass.models.push_back({instance.prefix(), instance.buffer()});
  }
  pass.training = message.training();
  pass.gradient_by = message.gradient_by();
  const auto differentiated = [&](const ModelInstance& instance) { return instance.buffer == pass.gradient_by; };
  if (!pass.gradient_by.empty() && std::ranges::none_of(pass.models, differentiated)) {
    return InvalidArgument("a pass of the plan differentiates its loss by '{}', over which no instance of the model is",
                           pass.gradient_by);
  }
  pass.other_gradient_by = message.other_gradient_by();
  const auto other = [&](const ModelInstance& instance) { return instance.buffer == pass.other_gradient_by; };
  if (!pass.other_gradient_by.empty() && (pass.gradient_by.empty() || pass.gradient_by == pass.other_gradient_by ||
                                          !pass.training || std::ranges::none_of(pass.models, other))) {
    return InvalidArgument(
        "a pass of the plan differentiates by '{}' beside '{}'; it wants another instance of the model than its own, "
        "and to train",
        pass.other_gradient_by, pass.gradient_by);
  }
  for (const std::string& by : {pass.gradient_by, pass.other_gradient_by}) {
    if (!by.starts_with(kBroadcastPrefix)) continue;
    return InvalidArgument("a pass of the plan differentiates by '{}', which can only be read", by);
  }
  if (!message.loss().empty()) {
    auto loss = ParseGraph(message.loss());
    if (!loss.ok()) return Annotate(loss.status(), "the plan's loss graph");
    pass.loss = std::make_shared<const Graph>(*std::move(loss));
  }
  for (const proto::NamedTensor& input : message.loss_inputs()) {
    pass.loss_inputs.emplace(input.name(), input.tensor());
  }
  return absl::OkStatus();
}

Status PlanReader::CheckHasNoGraphs(const proto::PassDef& message) {
  if (message.models().empty() && message.loss().empty() && message.loss_inputs().empty() &&
      message.gradient_by().empty() && message.input().empty() && message.begin().empty() && message.step().empty() &&
      message.end().empty() && message.loss_scale().empty() && !message.training() &&
      std::ranges::all_of(message.scalars(), [](const auto& scalar) { return scalar.tensor().empty(); })) {
    return absl::OkStatus();
  }
  return InvalidArgument("a pass of the plan has graphs, but the plan's model has none to run");
}

Status PlanReader::ReadScalars(const proto::PassDef& message, LocalPass& pass) {
  std::set<std::string> names = {"examples", "steps", "train_seconds"};  // declared by every client itself
  for (const proto::PassScalarDef& scalar : message.scalars()) {
    RIVULET_RETURN_IF_ERROR(CheckName("scalar", scalar.name()));
    if (!names.insert(scalar.name()).second) {
      return InvalidArgument("a pass of the plan reports '{}', which is reported already", scalar.name());
    }
    pass.scalars.push_back({scalar.name(), scalar.tensor(), scalar.sum()});
  }
  return absl::OkStatus();
}

// Reads a graph over flat variables alone, with the target `run`; "": none.
Status PlanReader::ReadFlatGraph(std::string_view what, const std::string& graph_def, bool gradient,
                                 std::shared_ptr<const Graph>& out) {
  if (graph_def.empty()) return absl::OkStatus();
  auto graph = ParseGraph(graph_def);
  if (!graph.ok()) return Annotate(graph.status(), fmt::format("the plan's {} graph", what));
  if (graph->Find(kRunTarget) == nullptr)
    return InvalidArgument("the plan's {} graph has no node '{}'", what, kRunTarget);
  for (const auto& node : graph->nodes()) {
    if (node->type() == "Placeholder") {
      return InvalidArgument("the plan's {} graph has a placeholder '{}', which nothing would feed", what,
                             node->name());
    }
    if (node->type() != "VarHandleOp") continue;
    const std::string_view name = VariableName(*node);
    const auto flat = Flat(name);
    if (!flat.ok()) return Annotate(flat.status(), fmt::format("the plan's {} graph", what));
    const Shape& shape = node->attr<Shape>("shape");
    if (VariableDType(*node) != flat->dtype || !Shape::Compatible(shape, flat->shape)) {
      return InvalidArgument("the plan's {} graph takes '{}' for {}{}, and it is {}{}", what, name,
                             Name(VariableDType(*node)), shape.ToString(), Name(flat->dtype), flat->shape.ToString());
    }
    if ((name == "grads" || name == "other_grads") && (what != "step" || !gradient)) {
      return InvalidArgument("the plan's {} graph uses '{}', which only their step may use", what, name);
    }
    if (name == "steps" && what != "end") {
      return InvalidArgument("the plan's {} graph uses 'steps', which are known only after the last one", what);
    }
    // All tasks of the process share the base model, so no op that could write (a function, say) may take its handle.
    for (const Node* user : OnlyRead(name) ? graph->Consumers(node->output()) : std::vector<Node*>{}) {
      if (user->type() == "ReadVariableOp" || user->type() == "VariableShape") continue;
      return InvalidArgument("the plan's {} graph gives '{}', which can only be read, to {} '{}'", what, name,
                             user->type(), user->name());
    }
  }
  out = std::make_shared<const Graph>(*std::move(graph));
  return absl::OkStatus();
}

}  // namespace rivulet
