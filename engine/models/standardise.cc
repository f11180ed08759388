#include "engine/models/standardise.h"

#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "engine/graph/scope.h"
#include "engine/models/replace_input.h"

namespace rivulet {
namespace {

const ModelInput* FindInput(const ModelDef& model, std::string_view placeholder) {
  if (model.input.placeholder == placeholder) return &model.input;
  for (const ModelInput& input : model.more_inputs)
    if (input.placeholder == placeholder) return &input;
  return nullptr;
}

StatusOr<Tensor> Floats(const Shape& shape, std::span<const double> values, std::string_view what) {
  Tensor tensor(DType::kFloat32, shape);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<float>(values[i]);
    if (!std::isfinite(value)) return InvalidArgument("{}: {} is beyond the range of a float", what, values[i]);
    tensor.flat<float>()[i] = value;
  }
  return tensor;
}

}  // namespace

Status Standardise(ModelDef& model, std::string_view placeholder, std::span<const double> mean,
                   std::span<const double> deviation) {
  const ModelInput* const input = FindInput(model, placeholder);
  if (input == nullptr) return NotFound("the model has no input '{}'", placeholder);
  const std::string what = fmt::format("the input '{}'", placeholder);
  if (input->encoding != FeatureEncoding::kFloat)
    return InvalidArgument("{} is no list of floats, which alone can be standardised", what);
  const Shape example(std::vector<int64_t>(input->spec.shape.dims().begin() + 1, input->spec.shape.dims().end()));
  RIVULET_ASSIGN_OR_RETURN(const int64_t values, example.CheckedElements());
  if (std::ssize(mean) != values || std::ssize(deviation) != values)
    return InvalidArgument("{} has {} values, and {} means and {} deviations are given", what, values, mean.size(),
                           deviation.size());
  std::vector<double> rates;
  for (const double d : deviation) {
    if (!(d > 0)) return InvalidArgument("{}: a deviation of {} is not above 0", what, d);
    rates.push_back(1 / d);
  }
  RIVULET_ASSIGN_OR_RETURN(Tensor means, Floats(example, mean, what));
  RIVULET_ASSIGN_OR_RETURN(Tensor factors, Floats(example, rates, what));
  const Output fed = model.graph.Find(placeholder)->output();
  const Scope scope = Scope(model.graph).SubScope(placeholder);
  const Output centred = scope.Op("Sub", {fed, scope.Const(std::move(means), "mean")}, {}, "centred");
  const Output seen = scope.Op("Mul", {centred, scope.Const(std::move(factors), "rate")}, {}, "standardised");
  RIVULET_RETURN_IF_ERROR(scope.status());
  for (auto& [name, tensor] : model.outputs)
    if (tensor == fed.name()) tensor = seen.name();
  return ReplaceInputOfConsumers(model.graph, fed, seen, centred.node);
}

}  // namespace rivulet
