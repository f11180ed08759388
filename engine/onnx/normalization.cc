// Normalisations. Statistics over other axes than the engine's fused ops know are put together from means.
#include <algorithm>
#include <numeric>

#include "engine/onnx/operator.h"

namespace rivulet::onnx {
namespace {

// A vector of channels as [1, c, 1, …] for an image of `rank` axes.
Output Channels(const Builder& b, Output vector, int rank) {
  std::vector<int64_t> dims(static_cast<size_t>(rank), 1);
  if (rank > 1) dims[1] = -1;
  return b.Reshape(vector, rank > 1 ? dims : std::vector<int64_t>{-1});
}

// 16-bit types are normalised in float32.
Output Wide(const Builder& b, Output x) {
  const DType dtype = TypeOf(x);
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 ? b.Cast(x, DType::kFloat32) : x;
}

struct Moments {
  Output mean, variance;  // with 1 in the place of the reduced axes
};
Moments MomentsOf(const Builder& b, Output x, const std::vector<int64_t>& axes) {
  const Output mean = b.Reduce("Mean", x, axes, true);
  return {mean, b.Reduce("Mean", b.Op("SquaredDifference", {x, mean}), axes, true)};
}

Output InverseDeviation(const Builder& b, Output variance, double epsilon) {
  return b.Op("Rsqrt", {b.Plus(variance, epsilon)});
}

std::vector<int64_t> AxesFrom(int first, int rank) {
  std::vector<int64_t> axes(static_cast<size_t>(std::max(0, rank - first)));
  std::iota(axes.begin(), axes.end(), first);
  return axes;
}

bool IsRead(Output x) { return x && x.node->type() == "ReadVariableOp"; }

// The form of a training step: statistics of the batch, and the running ones, which are variables, moved.
Output TrainedBatchNormalization(NodeContext& n, double epsilon, double momentum) {
  const Builder& b = n.b();
  const Output x = n.input(0);
  const int64_t channels = DimOf(n.input(1), 0);
  const int rank = ShapeOf(x).rank();
  const Output image = rank == 4   ? x
                       : rank == 2 ? b.Reshape(x, {-1, channels, 1, 1})
                                   : b.Shaped(x, {b.Dim(x, 0), b.Int(channels), b.Int(-1), b.Int(1)});
  const Output mean = n.input(3), variance = n.input(4);
  const std::vector<Output> outputs = b.All("FusedBatchNormV3", {image, n.input(1), n.input(2), mean, variance},
                                            {{"epsilon", static_cast<float>(epsilon)},
                                             {"exponential_avg_factor", static_cast<float>(1 - momentum)},
                                             {"data_format", std::string("NCHW")},
                                             {"is_training", true}});
  if (!n.status().ok()) return {};
  for (int i = 1; i < n.num_outputs(); ++i) n.set_output(i, outputs[i % 2 == 1 ? 1 : 2]);
  for (const auto& [read, next] : {std::pair(mean, outputs[1]), std::pair(variance, outputs[2])}) {
    const Node* assign = b.scope().AddNode("AssignVariableOp", {read.node->input(0), next}, {}, "Update");
    if (assign != nullptr) n.AddUpdate(assign->name());
  }
  return rank == 4 ? outputs[0] : b.ReshapeLike(outputs[0], x);
}

// With running statistics, or with those of the batch, which then also move the running ones:
// running · momentum + batch · (1 - momentum).
Status BatchNormalization(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0), scale = n.input(1), offset = n.input(2), mean = n.input(3), variance = n.input(4);
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  if (n.opset() < 9 && !n.Flag("spatial", true)) return n.Fail(Unimplemented("spatial = 0"));
  const double epsilon = n.Float("epsilon", 1e-5), momentum = n.Float("momentum", 0.9);
  const bool training = n.Trains(n.opset() >= 14  ? n.Flag("training_mode", false)
                                 : n.opset() >= 7 ? n.wants_output(1)
                                                  : !n.Flag("is_test", false) && n.wants_output(1));
  const DType dtype = TypeOf(x);
  const bool plain =
      dtype == TypeOf(scale) && dtype == TypeOf(mean) && (dtype == DType::kFloat32 || dtype == DType::kFloat64);
  if (training && n.MovesStatistics() && plain && rank >= 2 && IsRead(mean) && IsRead(variance)) {
    n.set_output(0, TrainedBatchNormalization(n, epsilon, momentum));
    return n.status();
  }
  if (!training) {  // statistics that a model of training's form gives out stay as they are
    for (int i = 1; i < n.num_outputs(); ++i) n.set_output(i, i % 2 == 1 ? mean : variance);
  }
  if (!training && rank == 4 && plain && Builder::Has("FusedBatchNormV3")) {
    n.set_output(
        0,
        b.Op("FusedBatchNormV3", {x, scale, offset, mean, variance},
             {{"epsilon", static_cast<float>(epsilon)}, {"data_format", std::string("NCHW")}, {"is_training", false}}));
    return n.status();
  }
  const Output wide = Wide(b, x);
  const auto channels = [&](Output vector) { return Channels(b, b.Cast(vector, TypeOf(wide)), rank); };
  Moments moments{channels(mean), channels(variance)};
  if (training) {
    std::vector<int64_t> axes = AxesFrom(2, rank);
    axes.insert(axes.begin(), 0);
    moments = MomentsOf(b, wide, axes);
    const auto moved = [&](Output running, Output batch) {
      const Output flat = b.Cast(b.Reshape(batch, {-1}), TypeOf(running));
      return b.Add(b.Times(running, momentum), b.Times(flat, 1 - momentum));
    };
    n.set_output(1, moved(mean, moments.mean));
    n.set_output(2, moved(variance, moments.variance));
    if (n.opset() < 14) {  // saved statistics of the batch
      n.set_output(3, b.Reshape(moments.mean, {-1}));
      n.set_output(4, b.Reshape(moments.variance, {-1}));
    }
  }
  const Output factor = b.Mul(channels(scale), InverseDeviation(b, moments.variance, epsilon));
  n.set_output(0, b.Cast(b.Add(b.Mul(b.Sub(wide, moments.mean), factor), channels(offset)), dtype));
  return n.status();
}
RIVULET_ONNX("BatchNormalization", BatchNormalization);

Output Grouped(const Builder& b, Output x, Output scale, Output offset, int64_t groups, bool per_group,
               double epsilon) {
  const int rank = ShapeOf(x).rank();
  const Output wide = Wide(b, x);
  const Output rows = b.Shaped(wide, {b.Dim(x, 0), b.Int(groups), b.Int(-1)});
  const Moments moments = MomentsOf(b, rows, {2});
  Output y = b.Mul(b.Sub(rows, moments.mean), InverseDeviation(b, moments.variance, epsilon));
  const auto factor = [&](Output vector) { return b.Cast(vector, TypeOf(wide)); };
  if (per_group) {
    y = b.Add(b.Mul(y, b.Reshape(factor(scale), {1, -1, 1})), b.Reshape(factor(offset), {1, -1, 1}));
    return b.Cast(b.ReshapeLike(y, x), TypeOf(x));
  }
  y = b.ReshapeLike(y, x);
  return b.Cast(b.Add(b.Mul(y, Channels(b, factor(scale), rank)), Channels(b, factor(offset), rank)), TypeOf(x));
}

Status InstanceNormalization(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0), scale = n.input(1), offset = n.input(2);
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  if (rank < 3) return InvalidArgument("the image {} has no spatial axes", ShapeOf(x).ToString());
  const double epsilon = n.Float("epsilon", 1e-5);
  if (rank == 4 && Builder::Has("InstanceNorm") && TypeOf(x) == TypeOf(scale)) {
    n.set_output(0, b.Op("InstanceNorm", {x, scale, offset},
                         {{"epsilon", static_cast<float>(epsilon)}, {"data_format", std::string("NCHW")}}));
    return n.status();
  }
  const Output wide = Wide(b, x);
  const Moments moments = MomentsOf(b, wide, AxesFrom(2, rank));
  const auto channels = [&](Output vector) { return Channels(b, b.Cast(vector, TypeOf(wide)), rank); };
  const Output factor = b.Mul(channels(scale), InverseDeviation(b, moments.variance, epsilon));
  n.set_output(0, b.Cast(b.Add(b.Mul(b.Sub(wide, moments.mean), factor), channels(offset)), TypeOf(x)));
  return n.status();
}
RIVULET_ONNX("InstanceNormalization", InstanceNormalization);

// Scale and offset belong to groups until opset 20, to channels since.
Status GroupNormalization(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0), scale = n.input(1), offset = n.input(2);
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  const int64_t groups = n.Int("num_groups", 0), channels = DimOf(x, 1);
  if (rank < 2 || groups < 1 || (channels != kUnknownDim && channels % groups != 0))
    return InvalidArgument("{} groups of the channels of {}", groups, ShapeOf(x).ToString());
  const double epsilon = n.Float("epsilon", 1e-5);
  if (rank == 4 && n.opset() >= 21 && Builder::Has("GroupNorm") && TypeOf(x) == TypeOf(scale)) {
    n.set_output(
        0,
        b.Op("GroupNorm", {x, scale, offset},
             {{"epsilon", static_cast<float>(epsilon)}, {"num_groups", groups}, {"data_format", std::string("NCHW")}}));
    return n.status();
  }
  n.set_output(0, Grouped(b, x, scale, offset, groups, n.opset() < 21, epsilon));
  return n.status();
}
RIVULET_ONNX("GroupNormalization", GroupNormalization);

// Over the axes from `axis` on; the statistics are float32 unless stash_type says otherwise.
Status LayerNormalization(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0), scale = n.input(1), offset = n.optional_input(2);
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  RIVULET_ASSIGN_OR_RETURN(const int axis, n.Axis(n.Int("axis", -1), rank));
  const double epsilon = n.Float("epsilon", 1e-5);
  const Shape &shape = ShapeOf(x), &scaled = ShapeOf(scale);
  const bool fits = scaled.IsFullyKnown() && offset && ShapeOf(offset) == scaled && scaled.rank() == rank - axis &&
                    std::ranges::equal(scaled.dims(), shape.dims().subspan(static_cast<size_t>(axis)));
  if (fits && TypeOf(x) == TypeOf(scale) && TypeOf(x) == DType::kFloat32 && Builder::Has("LayerNorm")) {
    const std::vector<Output> all =
        b.All("LayerNorm", {x, scale, offset},
              {{"epsilon", static_cast<float>(epsilon)}, {"begin_norm_axis", int64_t{axis}}});
    for (size_t i = 0; i < all.size(); ++i) n.set_output(static_cast<int>(i), all[i]);
    return n.status();
  }
  const Output wide = Wide(b, x);
  const Moments moments = MomentsOf(b, wide, AxesFrom(axis, rank));
  const Output inverse = InverseDeviation(b, moments.variance, epsilon);
  Output y = b.Mul(b.Cast(b.Mul(b.Sub(wide, moments.mean), inverse), TypeOf(scale)), scale);
  if (offset) y = b.Add(y, offset);
  n.set_output(0, b.Cast(y, TypeOf(x)));
  n.set_output(1, moments.mean);
  n.set_output(2, inverse);
  return n.status();
}
RIVULET_ONNX("LayerNormalization", LayerNormalization);

Status RmsNormalization(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0), scale = n.input(1);
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  RIVULET_ASSIGN_OR_RETURN(const int axis, n.Axis(n.Int("axis", -1), rank));
  const double epsilon = n.Float("epsilon", 1e-5);
  const Shape &shape = ShapeOf(x), &scaled = ShapeOf(scale);
  const bool fits = scaled.IsFullyKnown() && scaled.rank() == rank - axis &&
                    std::ranges::equal(scaled.dims(), shape.dims().subspan(static_cast<size_t>(axis)));
  if (fits && TypeOf(x) == TypeOf(scale) && TypeOf(x) == DType::kFloat32 && Builder::Has("RmsNorm")) {
    n.set_output(
        0, b.Op("RmsNorm", {x, scale}, {{"epsilon", static_cast<float>(epsilon)}, {"begin_norm_axis", int64_t{axis}}}));
    return n.status();
  }
  const Output wide = Wide(b, x);
  const Output square = b.Reduce("Mean", b.Square(wide), AxesFrom(axis, rank), true);
  const Output y = b.Mul(b.Cast(b.Mul(wide, InverseDeviation(b, square, epsilon)), TypeOf(scale)), scale);
  n.set_output(0, b.Cast(y, TypeOf(x)));
  return n.status();
}
RIVULET_ONNX("RMSNormalization", RmsNormalization);

// x / (bias + alpha / size · Σ x²)^beta, the sum over `size` neighbouring channels.
Status Lrn(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0);
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  const int64_t size = n.Int("size", 0), channels = DimOf(x, 1);
  if (rank < 2 || size < 1 || size > 4096 || channels == kUnknownDim)
    return InvalidArgument("size {} over the channels of {}", size, ShapeOf(x).ToString());
  std::vector<int64_t> before(static_cast<size_t>(rank), 0), after = before;
  before[1] = (size - 1) / 2;
  after[1] = size / 2;
  const Output squares = b.Pad(b.Square(Wide(b, x)), before, after);
  Output sum;
  for (int64_t i = 0; i < size; ++i) {
    const Output part = b.Slice(squares, 1, i, i + channels);
    sum = sum ? b.Add(sum, part) : part;
  }
  const Output base = b.Plus(b.Times(sum, n.Float("alpha", 1e-4) / static_cast<double>(size)), n.Float("bias", 1));
  n.set_output(0, b.Cast(b.Mul(Wide(b, x), b.Power(base, -n.Float("beta", 0.75))), TypeOf(x)));
  return n.status();
}
RIVULET_ONNX("LRN", Lrn);

// x over its norm along an axis; 0 where that is 0.
Status LpNormalization(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0);
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  RIVULET_ASSIGN_OR_RETURN(const int axis, n.Axis(n.Int("axis", -1), rank));
  const int64_t p = n.Int("p", 2);
  if (p != 1 && p != 2) return InvalidArgument("p is {}, not 1 or 2", p);
  const Output norm =
      p == 1 ? b.Reduce("Sum", b.Op("Abs", {x}), {axis}, true) : b.Sqrt(b.Reduce("Sum", b.Square(x), {axis}, true));
  n.set_output(0, b.Op("DivNoNan", {x, norm}));
  return n.status();
}
RIVULET_ONNX("LpNormalization", LpNormalization);

Status MeanVarianceNormalization(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0);
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, n.Axes(n.Ints("axes", {0, 2, 3}), rank));
  const Moments moments = MomentsOf(b, x, axes);
  n.set_output(0, b.Div(b.Sub(x, moments.mean), b.Plus(b.Sqrt(moments.variance), 1e-9)));
  return n.status();
}
RIVULET_ONNX("MeanVarianceNormalization", MeanVarianceNormalization);

}  // namespace
}  // namespace rivulet::onnx
