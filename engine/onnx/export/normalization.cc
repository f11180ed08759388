// Normalisations.
#include "engine/onnx/export/exporter.h"

namespace rivulet::onnx {
namespace {

bool ChannelsLast(const ExportContext& n) { return n.attr_or<std::string>("data_format", "NHWC").ends_with('C'); }

// The image as ONNX has it, and the result in the order in which it came.
Status OverChannels(ExportContext& n, const std::function<Value(const Value& x)>& emit) {
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  if (ChannelsLast(n) && rank > 2)
    n.set_output_channels_first(0, emit(n.channels_first(0)));
  else
    n.set_output(0, emit(n.input(0)));
  return absl::OkStatus();
}

Status BatchNorm(ExportContext& n) {
  if (n.attr<bool>("is_training"))
    return Unimplemented(
        "batch normalisation in its training form; export a tensor of the evaluation graph, which uses the running "
        "statistics");
  for (int port = 1; port < 6; ++port) RIVULET_RETURN_IF_ERROR(n.RefuseOutput(port, "a statistic"));
  return OverChannels(n, [&](const Value& x) {
    const Value y = n.Op("BatchNormalization", {x, n.input(1), n.input(2), n.input(3), n.input(4)},
                         {{"epsilon", n.attr<float>("epsilon")}});
    const std::string activation = n.attr_or<std::string>("activation_mode", "Identity");
    if (activation == "Relu") return n.Op("Relu", {y});
    if (activation == "Relu6") return n.Op("Clip", {y, n.Scalar(n.dtype(0), 0), n.Scalar(n.dtype(0), 6)});
    return y;
  });
}
RIVULET_ONNX_EXPORT("FusedBatchNormV3", BatchNorm);
RIVULET_ONNX_EXPORT("_FusedBatchNormEx", BatchNorm);

Status LayerNorm(ExportContext& n) {
  const std::vector<Value> values =
      n.All("LayerNormalization", n.inputs(), 3,
            {{"axis", n.attr<int64_t>("begin_norm_axis")}, {"epsilon", n.attr<float>("epsilon")}});
  for (int port = 0; port < 3; ++port) n.set_output(port, values[static_cast<size_t>(port)]);
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("LayerNorm", LayerNorm);

Status RmsNorm(ExportContext& n) {
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  RIVULET_ASSIGN_OR_RETURN(const int begin, n.Axis(n.attr<int64_t>("begin_norm_axis"), rank));
  std::vector<int64_t> axes;
  for (int axis = begin; axis < rank; ++axis) axes.push_back(axis);
  const Value x = n.input(0);
  const Value mean = n.Op("ReduceMean", {n.Op("Mul", {x, x}), n.Ints(axes)});
  const Value root = n.Op("Sqrt", {n.Op("Add", {mean, n.Scalar(n.dtype(0), n.attr<float>("epsilon"))})});
  const Value inverse = n.Op("Reciprocal", {root});
  const Value y = n.Op("Mul", {n.Op("Mul", {x, inverse}), n.input(1)});
  n.set_output(1, inverse);
  n.set_output(0, y);
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("RmsNorm", RmsNorm);

Value Ones(const ExportContext& n, int64_t count, double value) {
  return n.Op("Expand", {n.Scalar(n.dtype(0), value), n.Ints({count})});
}

Status OverGroups(ExportContext& n) {
  for (int port = 1; port < 3; ++port) RIVULET_RETURN_IF_ERROR(n.RefuseOutput(port, "a statistic"));
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  const AttrMap epsilon = {{"epsilon", n.attr<float>("epsilon")}};
  std::vector<int64_t> behind;  // axes behind the channels, of a vector of them
  for (int axis = 2; axis < rank; ++axis) behind.push_back(axis - 1);
  return OverChannels(n, [&](const Value& x) {
    if (n.type() == "InstanceNorm" && rank > 2)
      return n.Op("InstanceNormalization", {x, n.input(1), n.input(2)}, epsilon);
    // ONNX has this operator with a scale for each channel since opset 21: a group is a channel of another image.
    const int64_t groups = n.attr_or<int64_t>("num_groups", n.shape(1).dim(0));
    const Value grouped = n.Reshape(x, {0, groups, -1});
    const Value normal = n.Op("InstanceNormalization", {grouped, Ones(n, groups, 1), Ones(n, groups, 0)}, epsilon);
    Shape image = n.shape(0);  // as ONNX has it
    if (ChannelsLast(n)) {
      image.set_dim(1, n.shape(0).dim(rank - 1));
      for (int axis = 2; axis < rank; ++axis) image.set_dim(axis, n.shape(0).dim(axis - 1));
    }
    image.set_dim(0, 0);  // as many as there are
    const Value back = image.IsFullyKnown() ? n.Reshape(normal, {image.dims().begin(), image.dims().end()})
                                            : n.Op("Reshape", {normal, n.Op("Shape", {x})});
    const Value scaled = n.Op("Mul", {back, n.Unsqueeze(n.input(1), behind)});
    return n.Op("Add", {scaled, n.Unsqueeze(n.input(2), behind)});
  });
}
RIVULET_ONNX_EXPORT("GroupNorm", OverGroups);
RIVULET_ONNX_EXPORT("InstanceNorm", OverGroups);

RIVULET_ONNX_EXPORT("LRN", [](ExportContext& n) {
  const int64_t size = 2 * n.attr<int64_t>("depth_radius") + 1;
  const AttrMap attrs = {{"size", size},
                         {"alpha", n.attr<float>("alpha") * static_cast<float>(size)},
                         {"beta", n.attr<float>("beta")},
                         {"bias", n.attr<float>("bias")}};
  if (n.attr_or<std::string>("_data_format", "NHWC") == "NCHW")
    n.set_output(0, n.Op("LRN", {n.input(0)}, attrs));
  else
    n.set_output_channels_first(0, n.Op("LRN", {n.channels_first(0)}, attrs));
  return absl::OkStatus();
});

}  // namespace
}  // namespace rivulet::onnx
