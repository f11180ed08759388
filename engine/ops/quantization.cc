// Rounding of numbers to few levels and back, as in layers trained for quantised inference.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

Status CheckBits(const InferenceContext& c) {
  const int64_t bits = c.attr<int64_t>("num_bits");
  if (bits < 2 || bits > 16) return InvalidArgument("num_bits is {}; levels have 2 to 16 bits", bits);
  return absl::OkStatus();
}

Status FakeQuantShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckBits(c));
  if (c.num_inputs() == 3) RIVULET_RETURN_IF_ERROR(CheckScalars(c, {1, 2}));
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}

Status CheckChannels(const InferenceContext& c, const Shape& inputs, int first) {
  if (!inputs.known_rank()) return absl::OkStatus();
  if (inputs.rank() == 0) return InvalidArgument("a scalar has no channels");
  for (int i = first; i < first + 2; ++i)
    if (!Shape::Compatible(c.input(i), Shape({inputs.dim(inputs.rank() - 1)})))
      return InvalidArgument("{} has shape {}, but the channels are the last axis of {}", i == first ? "min" : "max",
                             c.input(i).ToString(), inputs.ToString());
  return absl::OkStatus();
}

Status FakeQuantChannelShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckBits(c));
  RIVULET_RETURN_IF_ERROR(CheckChannels(c, c.input(0), 1));
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}

// gradients, inputs, min, max.
Status FakeQuantGradientShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckBits(c));
  RIVULET_ASSIGN_OR_RETURN(const Shape both, Shape::Merge(c.input(0), c.input(1)));
  c.set_output(0, both);
  for (int i = 2; i < c.num_inputs(); ++i) c.set_output(i - 1, c.input(i));
  return absl::OkStatus();
}

// The attributes that say which levels there are.
AttrMap Levels(GradientContext& g) {
  AttrMap attrs;
  for (const char* name : {"min", "max", "num_bits", "narrow_range"})
    if (const auto found = g.node()->attrs().find(name); found != g.node()->attrs().end()) attrs.insert(*found);
  return attrs;
}

Status FakeQuantGradient(GradientContext& g) {
  GradientOps ops(g);
  std::vector<Output> inputs = {g.grad()};
  const int count = static_cast<int>(g.node()->inputs().size());
  for (int i = 0; i < count; ++i) inputs.push_back(g.input(i));
  Node* gradient = ops.AddNode(std::string(g.node()->type()) + "Gradient", inputs, Levels(g));
  for (int i = 0; i < count && gradient != nullptr; ++i) g.set_input_grad(i, gradient->output(i));
  return ops.status();
}

// Where the input is within the range it passes; TensorFlow gives none to the bounds.
Status QuantizeDequantizeGradient(GradientContext& g) {
  GradientOps ops(g);
  if (!g.node()->attr<bool>("range_given")) {
    g.set_input_grad(0, g.grad());
    return ops.status();
  }
  const Output x = g.input(0);
  const Output inside =
      ops.Op("LogicalAnd", {ops.Op("GreaterEqual", {x, g.input(1)}), ops.Op("LessEqual", {x, g.input(2)})});
  g.set_input_grad(0, ops.Op("SelectV2", {inside, g.grad(), ops.ZerosLike(g.grad())}));
  return ops.status();
}

Status QuantizeDequantizeShape(InferenceContext& c) {
  const int64_t bits = c.attr<int64_t>("num_bits");
  if (bits < 2 || bits > 24) return InvalidArgument("num_bits is {}; levels have 2 to 24 bits", bits);
  if (const int64_t axis = c.attr<int64_t>("axis"); axis != -1)
    return Unimplemented("ranges along axis {}; one range of the whole tensor is", axis);
  RIVULET_RETURN_IF_ERROR(CheckScalars(c, {1, 2}));
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}

#define RIVULET_LEVELS .Attr("num_bits: int = 8").Attr("narrow_range: bool = false")

RIVULET_OP("FakeQuantWithMinMaxArgs")
    .Input("inputs: float")
    .Output("outputs: float")
    .Attr("min: float = -6")
    .Attr("max: float = 6") RIVULET_LEVELS.Shape(FakeQuantShape)
    .Gradient(FakeQuantGradient)
    .Doc("The inputs, clamped to [min, max] and rounded to 2^num_bits levels, of which one is 0.");

RIVULET_OP("FakeQuantWithMinMaxArgsGradient")
    .Input("gradients: float")
    .Input("inputs: float")
    .Output("backprops: float")
    .Attr("min: float = -6")
    .Attr("max: float = 6") RIVULET_LEVELS.Shape(FakeQuantGradientShape)
    .NotDifferentiable("TensorFlow defines none")
    .Doc("The gradients where the inputs are within the levels, else 0.");

RIVULET_OP("FakeQuantWithMinMaxVars")
    .Input("inputs: float")
    .Input("min: float")
    .Input("max: float")
    .Output("outputs: float") RIVULET_LEVELS.Shape(FakeQuantShape)
    .Gradient(FakeQuantGradient)
    .Doc("As FakeQuantWithMinMaxArgs, with bounds that are tensors.");

RIVULET_OP("FakeQuantWithMinMaxVarsGradient")
    .Input("gradients: float")
    .Input("inputs: float")
    .Input("min: float")
    .Input("max: float")
    .Output("backprops_wrt_input: float")
    .Output("backprop_wrt_min: float")
    .Output("backprop_wrt_max: float") RIVULET_LEVELS.Shape(FakeQuantGradientShape)
    .NotDifferentiable("TensorFlow defines none")
    .Doc("The gradients within the levels, and their sums below and above, which the bounds get.");

RIVULET_OP("FakeQuantWithMinMaxVarsPerChannel")
    .Input("inputs: float")
    .Input("min: float")
    .Input("max: float")
    .Output("outputs: float") RIVULET_LEVELS.Shape(FakeQuantChannelShape)
    .Gradient(FakeQuantGradient)
    .Doc("As FakeQuantWithMinMaxVars, with bounds for each channel, the last axis.");

RIVULET_OP("FakeQuantWithMinMaxVarsPerChannelGradient")
    .Input("gradients: float")
    .Input("inputs: float")
    .Input("min: float")
    .Input("max: float")
    .Output("backprops_wrt_input: float")
    .Output("backprop_wrt_min: float")
    .Output("backprop_wrt_max: float") RIVULET_LEVELS.Shape(FakeQuantGradientShape)
    .NotDifferentiable("TensorFlow defines none")
    .Doc("As FakeQuantWithMinMaxVarsGradient, channel by channel.");

#define RIVULET_QUANTIZE_DEQUANTIZE(name)                               \
  RIVULET_OP(name)                                                      \
      .Input("input: T")                                                \
      .Input("input_min: T")                                            \
      .Input("input_max: T")                                            \
      .Output("output: T")                                              \
      .Attr("signed_input: bool = true")                                \
      .Attr("num_bits: int = 8")                                        \
      .Attr("range_given: bool = false")                                \
      .Attr("T: {float, double}")                                       \
      .Attr("round_mode: {'HALF_TO_EVEN', 'HALF_UP'} = 'HALF_TO_EVEN'") \
      .Attr("narrow_range: bool = false")                               \
      .Attr("axis: int = -1")                                           \
      .Shape(QuantizeDequantizeShape)
RIVULET_QUANTIZE_DEQUANTIZE("QuantizeAndDequantizeV2")
    .Gradient(PassGradient)
    .Doc("The input rounded to 2^num_bits levels of its range, or of the given one. Its gradient passes everywhere.");
RIVULET_QUANTIZE_DEQUANTIZE("QuantizeAndDequantizeV4")
    .Gradient(QuantizeDequantizeGradient)
    .Doc("As QuantizeAndDequantizeV2. Its gradient passes within the given range.");

}  // namespace
}  // namespace rivulet
