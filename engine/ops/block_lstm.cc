// TensorFlow's fused LSTMs over sequences, for imported graphs. Their backward pass is that of Rivulet's LSTM.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

Status BlockLstmShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(c.WithRank(0, 0).status());
  RIVULET_ASSIGN_OR_RETURN(const Shape x, c.WithRank(1, 3));
  int64_t batch = x.dim(1), units = kUnknownDim;
  const auto merge = [](int64_t& size, int64_t value, std::string_view what) -> Status {
    if (value == kUnknownDim) return absl::OkStatus();
    if (size != kUnknownDim && size != value)
      return InvalidArgument("{} is {}, where an earlier input has {}", what, value, size);
    size = value;
    return absl::OkStatus();
  };
  for (const auto& [i, name] : {std::pair{2, "cs_prev"}, std::pair{3, "h_prev"}}) {
    RIVULET_ASSIGN_OR_RETURN(const Shape state, c.WithRank(i, 2));
    RIVULET_RETURN_IF_ERROR(merge(batch, state.dim(0), fmt::format("the batch of {}", name)));
    RIVULET_RETURN_IF_ERROR(merge(units, state.dim(1), fmt::format("the width of {}", name)));
  }
  RIVULET_ASSIGN_OR_RETURN(const int64_t width, MultiplyDims(units, 4));
  RIVULET_ASSIGN_OR_RETURN(const Shape w, c.WithRank(4, 2));
  int64_t columns = width, rows = kUnknownDim;
  if (units != kUnknownDim && x.dim(2) != kUnknownDim) rows = x.dim(2) + units;
  RIVULET_RETURN_IF_ERROR(merge(columns, w.dim(1), "the number of columns of w"));
  RIVULET_RETURN_IF_ERROR(merge(rows, w.dim(0), "the number of rows of w"));
  for (const auto& [i, name] : {std::pair{5, "wci"}, std::pair{6, "wcf"}, std::pair{7, "wco"}}) {
    RIVULET_ASSIGN_OR_RETURN(const Shape peephole, c.WithRank(i, 1));
    RIVULET_RETURN_IF_ERROR(merge(units, peephole.dim(0), fmt::format("the length of {}", name)));
  }
  RIVULET_ASSIGN_OR_RETURN(const Shape bias, c.WithRank(8, 1));
  RIVULET_RETURN_IF_ERROR(merge(columns, bias.dim(0), "the length of b"));
  for (int i = 0; i < 7; ++i) c.set_output(i, Shape{x.dim(0), batch, units});
  return absl::OkStatus();
}

Status BlockLstmGradient(GradientContext& g) {
  for (const int port : {0, 2, 3, 4, 5})
    if (g.grad(port)) return Unimplemented("only cs and h of {} have gradients, as in TensorFlow", g.node()->type());
  GradientOps ops(g);
  const Output x = g.input(1), w = g.input(4);
  const int64_t inputs = x.shape().dim(2);
  if (inputs == kUnknownDim || g.output(6).shape().dim(2) == kUnknownDim)
    return Unimplemented("the gradient of {} whose widths are unknown when it is built", g.node()->type());
  // Version 1 has the gates i, ci, f, o side by side; version 2 i, f, ci, o, as LSTMGrad has.
  const bool swapped = g.node()->type() == "BlockLSTM";
  const auto swap = [&](Output gates) -> Output {
    if (!swapped) return gates;
    Node* parts = ops.AddNode("Split", {ops.Int(-1), gates}, {{"num_split", int64_t{4}}});
    if (parts == nullptr) return {};
    return ops.Op("ConcatV2", {parts->output(0), parts->output(2), parts->output(1), parts->output(3), ops.Int(-1)});
  };
  const auto concat = [&](std::vector<Output> parts, int64_t axis) {
    parts.push_back(ops.Int(axis));
    return ops.Op("ConcatV2", std::move(parts));
  };
  const Output input_rows = ops.Op("Slice", {w, ops.Ints({0, 0}), ops.Ints({inputs, -1})});
  const Output state_rows = swap(ops.Op("Slice", {w, ops.Ints({inputs, 0}), ops.Ints({-1, -1})}));
  const Output gates = concat({g.output(0), g.output(2), g.output(4), g.output(3)}, 2);
  const bool peephole = g.node()->attr<bool>("use_peephole");
  const Output none = g.scope().Const(Tensor(x.dtype(), Shape{0}), "none");
  const Output peepholes = peephole ? concat({g.input(5), g.input(6), g.input(7)}, 0) : none;
  const Output batch = ops.Op("StridedSlice", {ops.ShapeOf(x), ops.Ints({1}), ops.Ints({2}), ops.Ints({1})});
  const Output lengths = ops.Op("Fill", {batch, g.input(0)});
  const Output no_final = ops.ZerosLike(g.input(2));
  const Output h_grad = g.grad(6) ? g.grad(6) : ops.ZerosLike(g.output(6));
  Node* grad = ops.AddNode("LSTMGrad",
                           {state_rows, g.input(3), g.input(2), peepholes, lengths, g.output(6), gates, g.output(1),
                            h_grad, no_final, no_final, g.grad(1) ? g.grad(1) : none},
                           {{"time_major", true}, {"cell_clip", std::max(0.0f, g.node()->attr<float>("cell_clip"))}});
  if (grad == nullptr) return ops.status();
  const auto flat = [&](Output rows, int64_t width) { return ops.Op("Reshape", {rows, ops.Ints({-1, width})}); };
  const int64_t units = g.output(6).shape().dim(2);
  const Output dgates = flat(swap(grad->output(0)), 4 * units);
  const Output x_grad = ops.Op("MatMul", {dgates, input_rows}, {{"transpose_b", true}});
  g.set_input_grad(1, ops.ReshapeLike(x_grad, x));
  g.set_input_grad(2, grad->output(3));
  g.set_input_grad(3, grad->output(2));
  const Output left = flat(concat({x, grad->output(1)}, 2), inputs + units);
  g.set_input_grad(4, ops.Op("MatMul", {left, dgates}, {{"transpose_a", true}}));
  if (peephole)
    for (int i = 0; i < 3; ++i)
      g.set_input_grad(5 + i, ops.Op("Slice", {grad->output(4), ops.Ints({i * units}), ops.Ints({units})}));
  g.set_input_grad(8, ops.Sum(dgates, ops.Ints({0}), /*keep_dims=*/false));
  return ops.status();
}

#define RIVULET_BLOCK_LSTM(name)   \
  RIVULET_OP(name)                 \
      .Input("seq_len_max: int64") \
      .Input("x: T")               \
      .Input("cs_prev: T")         \
      .Input("h_prev: T")          \
      .Input("w: T")               \
      .Input("wci: T")             \
      .Input("wcf: T")             \
      .Input("wco: T")             \
      .Input("b: T")               \
      .Output("i: T")              \
      .Output("cs: T")             \
      .Output("f: T")              \
      .Output("o: T")              \
      .Output("ci: T")             \
      .Output("co: T")             \
      .Output("h: T")

RIVULET_BLOCK_LSTM("BlockLSTM")
    .Attr("forget_bias: float = 1")
    .Attr("cell_clip: float = 3")
    .Attr("use_peephole: bool = false")
    .Attr("T: floattype")
    .Shape(BlockLstmShape)
    .Gradient(BlockLstmGradient)
    .Doc(
        "LSTMBlockCell over the first seq_len_max steps of x [time, batch, inputs]; zeros after them. The columns of w "
        "and b are the gates i, ci, f, o. Where cs was bounded its gradient is 0; TensorFlow lets it pass.");

RIVULET_BLOCK_LSTM("BlockLSTMV2")
    .Attr("cell_clip: float = 0")
    .Attr("use_peephole: bool = false")
    .Attr("T: floattype")
    .Shape(BlockLstmShape)
    .Gradient(BlockLstmGradient)
    .Doc("As BlockLSTM, without forget_bias and with the gates in the order i, f, ci, o.");

}  // namespace
}  // namespace rivulet
