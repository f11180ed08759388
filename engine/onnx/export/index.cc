// Elements by their index.
#include "engine/graph/variable_name.h"
#include "engine/onnx/export/exporter.h"

namespace rivulet::onnx {
namespace {

Status GatherV2(ExportContext& n) {
  RIVULET_ASSIGN_OR_RETURN(const int64_t axis, n.KnownInt(2));
  const int64_t batch = n.attr<int64_t>("batch_dims");
  if (batch == 0) {
    n.set_output(0, n.Op("Gather", {n.input(0), n.input(1)}, {{"axis", axis}}));
    return absl::OkStatus();
  }
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  RIVULET_ASSIGN_OR_RETURN(const int positive, n.Axis(axis, rank));
  if (batch < 0 || positive != batch)
    return Unimplemented("batch_dims {} with axis {}; ONNX gathers at the first axis after the batch", batch, axis);
  n.set_output(0, n.Op("GatherND", {n.input(0), n.Unsqueeze(n.int64s(1), {-1})}, {{"batch_dims", batch}}));
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("GatherV2", GatherV2);
RIVULET_ONNX_EXPORT("Gather", [](ExportContext& n) {
  n.set_output(0, n.Op("Gather", {n.input(0), n.input(1)}, {{"axis", int64_t{0}}}));
  return absl::OkStatus();
});

RIVULET_ONNX_EXPORT("GatherNd", [](ExportContext& n) {
  n.set_output(0, n.Op("GatherND", {n.input(0), n.int64s(1)}));
  return absl::OkStatus();
});

RIVULET_ONNX_EXPORT("TakeAlongAxis", [](ExportContext& n) {
  n.set_output(0, n.Op("GatherElements", {n.input(0), n.input(1)}, {{"axis", n.attr<int64_t>("axis")}}));
  return absl::OkStatus();
});
RIVULET_ONNX_EXPORT("ScatterAlongAxis", [](ExportContext& n) {
  n.set_output(0, n.Op("ScatterElements", n.inputs(),
                       {{"axis", n.attr<int64_t>("axis")}, {"reduction", n.attr<std::string>("reduction")}}));
  return absl::OkStatus();
});

RIVULET_ONNX_EXPORT("ScatterNd", [](ExportContext& n) {
  const Value zeros = n.Op("Expand", {n.Scalar(n.dtype(1), 0), n.int64s(2)});
  n.set_output(0, n.Op("ScatterND", {zeros, n.int64s(0), n.input(1)}, {{"reduction", std::string("add")}}));
  return absl::OkStatus();
});

Status TensorScatter(ExportContext& n) {
  const std::string_view type = n.type();
  const char* reduction = type == "TensorScatterUpdate" ? "none"
                          : type == "TensorScatterMul"  ? "mul"
                          : type == "TensorScatterMax"  ? "max"
                          : type == "TensorScatterMin"  ? "min"
                                                        : "add";
  Value updates = n.input(2);
  if (type == "TensorScatterSub") updates = n.Op("Neg", {updates});
  n.set_output(0, n.Op("ScatterND", {n.input(0), n.int64s(1), updates}, {{"reduction", std::string(reduction)}}));
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("TensorScatterUpdate", TensorScatter);
RIVULET_ONNX_EXPORT("TensorScatterAdd", TensorScatter);
RIVULET_ONNX_EXPORT("TensorScatterSub", TensorScatter);
RIVULET_ONNX_EXPORT("TensorScatterMul", TensorScatter);
RIVULET_ONNX_EXPORT("TensorScatterMax", TensorScatter);
RIVULET_ONNX_EXPORT("TensorScatterMin", TensorScatter);

// An index outside the range gives a row of off_value here; ONNX counts negative ones from the end.
RIVULET_ONNX_EXPORT("OneHot", [](ExportContext& n) {
  const Value values = n.Concat({n.Unsqueeze(n.input(3), {0}), n.Unsqueeze(n.input(2), {0})}, 0);
  Value indices =
      n.dtype(0) == DType::kUint8 || n.dtype(0) == DType::kInt8 ? n.Cast(n.input(0), DType::kInt64) : n.int64s(0);
  const Value depth = n.int64s(1);
  if (n.dtype(0) != DType::kUint8) indices = n.Op("Where", {n.Op("Less", {indices, n.Int(0)}), depth, indices});
  n.set_output(0, n.Op("OneHot", {indices, n.Unsqueeze(depth, {0}), values}, {{"axis", n.attr<int64_t>("axis")}}));
  return absl::OkStatus();
});

RIVULET_ONNX_EXPORT("TopKV2", [](ExportContext& n) {
  const std::vector<Value> values =
      n.All("TopK", {n.input(0), n.Reshape(n.int64s(1), {1})}, 2, {{"axis", int64_t{-1}}, {"sorted", true}});
  n.set_output(0, values[0]);
  n.set_output_int64(1, values[1]);
  return absl::OkStatus();
});

Status Arg(ExportContext& n) {
  RIVULET_ASSIGN_OR_RETURN(const int64_t axis, n.KnownInt(1));
  n.set_output_int64(0, n.Op(n.type(), {n.input(0)}, {{"axis", axis}, {"keepdims", false}}));
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("ArgMax", Arg);
RIVULET_ONNX_EXPORT("ArgMin", Arg);

RIVULET_ONNX_EXPORT("Cumsum", [](ExportContext& n) {
  n.set_output(0, n.Op("CumSum", {n.input(0), n.int64s(1)},
                       {{"exclusive", n.attr<bool>("exclusive")}, {"reverse", n.attr<bool>("reverse")}}));
  return absl::OkStatus();
});

RIVULET_ONNX_EXPORT("Where", [](ExportContext& n) {
  const Value positions = n.Op("NonZero", {n.input(0)});
  n.set_output(0, n.Op("Transpose", {positions}, {{"perm", std::vector<int64_t>{1, 0}}}));
  return absl::OkStatus();
});

}  // namespace
}  // namespace rivulet::onnx
