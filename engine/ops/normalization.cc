#include "engine/ops/normalization.h"

namespace rivulet {

StatusOr<int> NormalizedChannelAxis(const Shape& x, const std::string& data_format) {
  if (x.rank() < 2) return InvalidArgument("x {} must have an axis of examples and one of channels", x.ToString());
  return data_format.ends_with('C') ? x.rank() - 1 : 1;
}

std::vector<Output> NormalizationGradient::operator()(GradientOps& ops, Output dy, Output x, Output scale) const {
  const bool own = !variance;
  const Output over = ops.Ints(axes);
  const auto average = [&](Output value) { return ops.Op("Mean", {value, over}, {{"keep_dims", true}}); };
  const Output distance = !centered ? x : ops.Sub(x, own ? average(x) : mean);
  const Output spread = own ? average(ops.Square(distance)) : variance;
  const Output inverse = ops.Op("Rsqrt", {ops.Add(spread, ops.Scalar(x.dtype(), static_cast<double>(epsilon)))});
  const Output normal = ops.Mul(distance, inverse);
  Output dx = ops.Mul(dy, scale);
  if (own) {
    const Output along = ops.Mul(normal, average(ops.Mul(dx, normal)));
    dx = ops.Sub(centered ? ops.Sub(dx, average(dx)) : dx, along);
  }
  return {ops.Mul(dx, inverse), ops.Mul(dy, normal), dy};
}

Status GradientOfGradient(GradientContext& g, const WrittenOut& written_out) {
  GradientOps ops(g);
  for (int i = 1; i < 3; ++i)
    if (g.input(i).dtype() != g.input(0).dtype())
      return Unimplemented("second derivatives of a normalisation of {} with parameters of {}",
                           Name(g.input(1).dtype()), Name(g.input(2).dtype()));
  // Behind nodes of their own, so that what they have in common elsewhere in the graph is not followed.
  const std::vector<Output> inputs = {ops.Op("Identity", {g.input(0)}), ops.Op("Identity", {g.input(1)}),
                                      ops.Op("Identity", {g.input(2)})};
  const std::vector<Output> outputs = written_out(ops, inputs[0], inputs[1], inputs[2]);
  RIVULET_RETURN_IF_ERROR(ops.status());
  Output loss;
  for (size_t i = 0; i < outputs.size() && i < g.node()->outputs().size(); ++i) {
    const Output gradient = g.grad(static_cast<int>(i));
    if (!gradient) continue;
    const Output weighted = ops.Op("Reshape", {ops.Mul(gradient, outputs[i]), ops.Ints({-1})});
    const Output sum = ops.Sum(weighted, ops.Ints({0}), /*keep_dims=*/false);
    loss = loss ? ops.Add(loss, sum) : sum;
  }
  RIVULET_RETURN_IF_ERROR(ops.status());
  if (!loss) return absl::OkStatus();
  RIVULET_ASSIGN_OR_RETURN(const std::vector<Output> gradients, ComputeGradients(g.scope().graph(), loss, inputs));
  for (size_t i = 0; i < gradients.size(); ++i) g.set_input_grad(static_cast<int>(i), gradients[i]);
  return ops.status();
}

Status MergeChannels(const InferenceContext& c, int i, std::string_view name, Shape& channels) {
  auto merged = Shape::Merge(channels, c.input(i));
  if (!merged.ok())
    return InvalidArgument("{} is {}, but one value per channel is needed: {}", name, c.input(i).ToString(),
                           channels.ToString());
  channels = *std::move(merged);
  return absl::OkStatus();
}

}  // namespace rivulet
