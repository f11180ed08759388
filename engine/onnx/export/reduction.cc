// Reductions over axes.
#include <algorithm>

#include "engine/onnx/export/exporter.h"

namespace rivulet::onnx {
namespace {

Status Reduce(ExportContext& n, const char* op) {
  const bool keep = n.attr<bool>("keep_dims");
  const DType dtype = n.dtype(0);
  // Types that ONNX's reductions lack; a result that wraps around in 32 bits also wraps in fewer.
  const bool narrow = dtype == DType::kBool || dtype == DType::kInt8 || dtype == DType::kUint8 ||
                      dtype == DType::kInt16 || dtype == DType::kUint16;
  AttrMap attrs = {{"keepdims", keep}, {"noop_with_empty_axes", true}};
  const auto finish = [&](const Value& x, const Value& axes) {
    const Value reduced = n.Op(op, {narrow ? n.Cast(x, DType::kInt32) : x, axes}, attrs);
    return narrow ? n.Cast(reduced, dtype) : reduced;
  };
  const auto known = n.IntsIfKnown(1);
  if (known && n.lies_channels_first(0)) {
    const int rank = n.shape(0).rank();
    std::vector<int64_t> axes;
    for (int64_t axis : *known) {
      RIVULET_ASSIGN_OR_RETURN(const int positive, n.Axis(axis, rank));
      axes.push_back(positive == 0 ? 0 : positive == rank - 1 ? 1 : positive + 1);
    }
    const auto reduces = [&](int64_t axis) { return std::ranges::find(axes, axis) != axes.end(); };
    // Without its own axes, what is left stands in the graph's order when channels or space are gone.
    bool all_of_space = true;
    for (int axis = 2; axis < rank; ++axis) all_of_space = all_of_space && reduces(axis);
    if (keep || all_of_space || reduces(1)) {
      std::ranges::sort(axes);
      const Value reduced = finish(n.channels_first(0), n.Ints(axes));
      if (keep)
        n.set_output_channels_first(0, reduced);
      else
        n.set_output(0, reduced);
      return absl::OkStatus();
    }
  }
  // ONNX takes a vector of axes, where our graphs may have one number.
  const bool scalar = n.shape(1).known_rank() && n.shape(1).rank() == 0;
  const Value axes = known ? n.Ints(*known) : scalar ? n.Reshape(n.int64s(1), {1}) : n.int64s(1);
  n.set_output(0, finish(n.input(0), axes));
  return absl::OkStatus();
}

#define RIVULET_REDUCTION(op, onnx) RIVULET_ONNX_EXPORT(op, [](ExportContext& n) { return Reduce(n, onnx); })
RIVULET_REDUCTION("Sum", "ReduceSum");
RIVULET_REDUCTION("Mean", "ReduceMean");
RIVULET_REDUCTION("Max", "ReduceMax");
RIVULET_REDUCTION("Min", "ReduceMin");
RIVULET_REDUCTION("Prod", "ReduceProd");
RIVULET_REDUCTION("EuclideanNorm", "ReduceL2");
RIVULET_REDUCTION("All", "ReduceMin");
RIVULET_REDUCTION("Any", "ReduceMax");

RIVULET_ONNX_EXPORT("AllFinite", [](ExportContext& n) {
  const DType dtype = n.dtype(0);  // ONNX's IsInf takes no 16 bits
  const Value x =
      dtype == DType::kFloat16 || dtype == DType::kBFloat16 ? n.Cast(n.input(0), DType::kFloat32) : n.input(0);
  const Value infinite = n.Op("Or", {n.Op("IsNaN", {x}), n.Op("IsInf", {x})});
  const Value any = n.Op("ReduceMax", {n.Cast(infinite, DType::kInt32)}, {{"keepdims", false}});
  n.set_output(0, n.Op("Not", {n.Cast(any, DType::kBool)}));
  return absl::OkStatus();
});

}  // namespace
}  // namespace rivulet::onnx
