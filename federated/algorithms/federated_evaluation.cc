// Federated evaluation (Bonawitz et al. 2019, arXiv:1902.01046, whose tasks train or evaluate): measures a version on
// the clients' data. Each client k of a separate cohort runs the model over its n_k examples and changes nothing. It
// sends numbers, which are summed exactly:
//
//   loss = Σ_k n_k · loss_k / Σ_k n_k,    rate = Σ_k right_k / Σ_k total_k
//
// A metric that is the mean of truth values is a rate and is counted. A metric of counts, such as a histogram, sends
// each count, and these are added. Every other metric is a mean over examples, as the loss is. Measuring does not
// affect training: runs with and without it have the same models, to the bit.
//
// Clients with personal models also measure these, over the same examples as the shared model, in their state when the
// version was made: the state kept from the client's last task in this version or an earlier one, regardless of later
// training. A client without such a task has the model with which it would start: the shared one, and initial values of
// its personal layers.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "engine/graph/scope.h"
#include "federated/algorithms/algorithm.h"
#include "federated/evaluation/count_scalar.h"
#include "federated/plan/compose_pass.h"
#include "federated/plan/rates.h"

namespace rivulet {
namespace {

// Adds the number of truth values and of true ones as nodes "<rate>/total" and "<rate>/right" to the graph of the loss:
// float32, which counts a batch exactly.
void CountTruths(const Scope& scope, Output truths, const std::string& rate) {
  const Output all = scope.Const(Tensor::Of<int32_t>({1}, {-1}));
  const Output ones =
      scope.Op("Cast", {scope.Op("Reshape", {truths, all})}, {{"DstT", DType::kFloat32}}, rate + "/ones");
  const Output axis = scope.Const(Tensor::Of<int32_t>({1}, {0}));
  scope.Op("Sum", {ones, axis}, {}, rate + "/right");
  scope.Op("Cast", {scope.Op("Size", {ones})}, {{"DstT", DType::kFloat32}}, rate + "/total");
}

// Makes each count an output of a node "<counts>:i".
void TakeApart(const Scope& scope, Output counts, int64_t size, const std::string& name) {
  scope.Op("Unpack", {counts}, {{"num", size}, {"axis", int64_t{0}}}, name);
}

// The pass that measures the model over `buffer`; names of its reports start with `scope_name`.
StatusOr<LocalPass> Measuring(const ModelDef& model, const std::string& buffer, const std::string& scope_name,
                              int64_t batch_size) {
  LocalPass pass;
  pass.models = {{.prefix = "", .buffer = buffer}};
  pass.gradient_by = "";
  pass.training = false;
  pass.shuffle = false;
  pass.batch_size = batch_size;
  pass.scalars.push_back({scope_name + "/loss", model.eval_loss});
  if (!model.has_graph()) {  // external measurements are means over examples
    pass.models.clear();
    for (const auto& metric : model.metrics)
      pass.scalars.push_back({fmt::format("{}/{}", scope_name, metric.first), ""});
    return pass;
  }

  Graph loss;
  const Scope scope(loss);
  for (size_t i = 0; i < model.metrics.size(); ++i) {
    const auto& [name, tensor] = model.metrics[i];
    if (const std::optional<int64_t> counts = CountsOf(model.graph, name, tensor)) {
      const std::string placeholder = fmt::format("counts_{}", i), each = placeholder + "/each";
      TakeApart(scope, scope.Placeholder(placeholder, DType::kFloat32, Shape{*counts}), *counts, each);
      pass.loss_inputs[placeholder] = tensor;
      for (int64_t c = 0; c < *counts; ++c) {
        pass.scalars.push_back({fmt::format("{}/{}{}{:04}", scope_name, name, kCountScalar, c),
                                fmt::format("{}/{}:{}", kLossScope, each, c), true});
      }
      continue;
    }
    const std::optional<Output> ones = OnesOfRate(model.graph, tensor);
    if (!ones) {
      pass.scalars.push_back({fmt::format("{}/{}", scope_name, name), tensor});
      continue;
    }
    const Output truths = ones->node->input(0);
    const std::string rate = fmt::format("rate_{}", i);
    CountTruths(scope, scope.Placeholder(rate, DType::kBool, truths.shape()), rate);
    pass.loss_inputs[rate] = truths.name();
    for (const char* count : {"right", "total"})
      pass.scalars.push_back(
          {fmt::format("{}/{}/{}", scope_name, name, count), fmt::format("{}/{}/{}", kLossScope, rate, count), true});
  }
  if (!pass.loss_inputs.empty()) {
    scope.Op("Identity", {scope.Placeholder("mean", DType::kFloat32, Shape{})}, {}, "loss");
    pass.loss_inputs["mean"] = model.eval_loss;
    RIVULET_RETURN_IF_ERROR(scope.status());
    pass.loss = std::make_shared<const Graph>(std::move(loss));
  }
  return pass;
}

}  // namespace

StatusOr<std::vector<LocalPass>> FederatedEvaluation(const ModelDef& model, const Composition& composition,
                                                     int64_t batch_size) {
  const bool own_layers = std::ranges::any_of(
      model.variables, [](const ModelVariable& variable) { return variable.segment == Name(Segment::kLocal); });
  std::vector<LocalPass> passes;
  if (!own_layers) {
    RIVULET_ASSIGN_OR_RETURN(passes.emplace_back(), Measuring(model, "base_params", "evaluate", batch_size));
  }
  const std::string personal = own_layers ? "params" : composition.personal;
  if (!personal.empty()) {
    RIVULET_ASSIGN_OR_RETURN(passes.emplace_back(), Measuring(model, personal, "personal", batch_size));
  }
  return passes;
}

}  // namespace rivulet
