// Parts of tensors, and tensors with a border.
#include <algorithm>
#include <numeric>

#include "engine/onnx/operator.h"

namespace rivulet::onnx {
namespace {

// Sizes from the attribute or input `split`, or equal parts (the last smaller where num_outputs says how many).
Status Split(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0);
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  RIVULET_ASSIGN_OR_RETURN(const int axis, n.Axis(n.Int("axis", 0), rank));
  std::vector<int64_t> sizes;
  if ((n.opset() == 1 || n.opset() >= 13) && n.has_input(1)) {
    RIVULET_ASSIGN_OR_RETURN(sizes, n.IntValues(1));
  } else if (n.opset() < 13 && n.has_attr("split")) {
    sizes = n.Ints("split");
  } else {
    const int64_t size = DimOf(x, axis), parts = n.Int("num_outputs", n.num_outputs());
    if (size == kUnknownDim) return FailedPrecondition("the size of axis {} must be known", axis);
    if (parts < 1 || parts != n.num_outputs())
      return InvalidArgument("num_outputs is {}, but there are {}", parts, n.num_outputs());
    const int64_t each = size / parts + (size % parts != 0);
    for (int64_t begin = 0; static_cast<int64_t>(sizes.size()) < parts; begin += each)
      sizes.push_back(std::clamp<int64_t>(size - begin, 0, each));
  }
  if (static_cast<int>(sizes.size()) != n.num_outputs())
    return InvalidArgument("{} sizes are given for {} outputs", sizes.size(), n.num_outputs());
  int64_t begin = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t end = 0;
    if (sizes[i] < 0 || __builtin_add_overflow(begin, sizes[i], &end))
      return InvalidArgument("part {} has the size {}", i, sizes[i]);
    n.set_output(static_cast<int>(i), b.Slice(x, axis, begin, end));
    begin = end;
  }
  if (const int64_t size = DimOf(x, axis); size != kUnknownDim && size != begin)
    return InvalidArgument("the parts have {} elements of axis {}, which has {}", begin, axis, size);
  return n.status();
}
RIVULET_ONNX("Split", Split);

// Backwards from `start`, counted from the end, along an axis whose size is only known at run time.
Output SliceBackwards(const Builder& b, Output x, int axis, int64_t start, int64_t end, int64_t step) {
  if (axis >= 32) return b.Slice(x, axis, start, end, step);  // and its error
  const auto size = static_cast<size_t>(axis) + 1;
  std::vector<Output> begins(size, b.Int(0));
  begins.back() = b.Maximum(b.Add(b.Dim(x, axis), b.Int(start)), b.Int(0));
  std::vector<int64_t> ends(size, 0), steps(size, 1);
  ends.back() = end;
  steps.back() = step;
  const int64_t others = (int64_t{1} << axis) - 1;
  return b.Op("StridedSlice", {x, b.Stack(begins, 0), b.Ints(ends), b.Ints(steps)},
              {{"begin_mask", others}, {"end_mask", others}});
}

// One axis, between places of which at least one is known only when the graph runs.
Output SliceBetween(const Builder& b, Output x, int axis, Output begin, Output end, int64_t step) {
  if (axis >= 32) return b.Slice(x, axis, 0, 0, step);  // and its error
  const auto size = static_cast<size_t>(axis) + 1;
  std::vector<Output> begins(size, b.Int(0)), ends = begins;
  begins.back() = begin;
  ends.back() = end;
  std::vector<int64_t> steps(size, 1);
  steps.back() = step;
  const int64_t others = (int64_t{1} << axis) - 1;
  return b.Op("StridedSlice", {x, b.Vector(begins), b.Vector(ends), b.Ints(steps)},
              {{"begin_mask", others}, {"end_mask", others}});
}

Status Slice(NodeContext& n) {
  const Builder& b = n.b();
  Output x = n.input(0);
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<Dimension> sizes, n.Sizes(0));
  std::vector<Dimension> starts, ends;
  std::vector<int64_t> axes, steps;
  if (n.opset() < 10) {
    const std::vector<int64_t> first = n.Ints("starts"), last = n.Ints("ends");
    starts.assign(first.begin(), first.end());
    ends.assign(last.begin(), last.end());
    axes = n.Ints("axes");
  } else {
    RIVULET_ASSIGN_OR_RETURN(starts, n.IntElements(1));
    RIVULET_ASSIGN_OR_RETURN(ends, n.IntElements(2));
    if (n.has_input(3)) {
      RIVULET_ASSIGN_OR_RETURN(axes, n.IntValues(3));
    }
    if (n.has_input(4)) {
      RIVULET_ASSIGN_OR_RETURN(steps, n.IntValues(4));
    }
  }
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    return InvalidArgument("starts, ends, axes and steps have {}, {}, {} and {} elements", starts.size(), ends.size(),
                           axes.size(), steps.size());
  std::vector<bool> cut(static_cast<size_t>(rank));
  for (size_t i = 0; i < axes.size(); ++i) {
    RIVULET_ASSIGN_OR_RETURN(const int axis, n.Axis(axes[i], rank));
    if (cut[static_cast<size_t>(axis)]) return InvalidArgument("axis {} is cut twice", axis);
    cut[static_cast<size_t>(axis)] = true;
    // Ends far outside mean "to the end"; within what StridedSlice adds a size to without overflow.
    constexpr int64_t far = int64_t{1} << 60;
    const int64_t step = std::clamp(steps[i], -far, far), size = DimOf(x, axis);
    const bool to_end = step > 0 && ends[i] == sizes[static_cast<size_t>(axis)];
    if (!starts[i].IsNumber() || (!ends[i].IsNumber() && !to_end)) {
      x = SliceBetween(b, x, axis, n.Element(1, starts, i), n.Element(2, ends, i), step);
      continue;
    }
    int64_t start = std::clamp(starts[i].number(), -far, far),
            end = to_end ? far : std::clamp(ends[i].number(), -far, far);
    if (step < 0 && size > 0) {
      // Backwards, a start before the first element means the first, unlike NumPy's.
      start = std::clamp<int64_t>(start < 0 ? start + size : start, 0, size - 1);
      end = std::clamp<int64_t>(end < 0 ? end + size : end, -1, size - 1);
    }
    if (step < 0 && size == kUnknownDim && start < 0) {
      x = SliceBackwards(b, x, axis, start, end, step);
      continue;
    }
    x = step < 0 && size > 0 && end == -1 ? b.From(x, axis, start, step) : b.Slice(x, axis, start, end, step);
  }
  n.set_output(0, b.Op("Identity", {x}));
  return n.status();
}
RIVULET_ONNX("Slice", Slice);

// Edge and wrap: rows of the input put before and after it. A negative amount cuts.
Output PadAxis(const Builder& b, Output x, int axis, int64_t before, int64_t after, bool edge) {
  const int64_t size = DimOf(x, axis);
  if (size == kUnknownDim || size == 0) {
    b.Fail(FailedPrecondition("the size of axis {} must be known and not 0", axis));
    return {};
  }
  if (before + after + size > (int64_t{1} << 24)) {
    b.Fail(ResourceExhausted("an axis padded to {}", before + after + size));
    return {};
  }
  std::vector<int64_t> indices;
  for (int64_t i = -before; i < size + after; ++i)
    indices.push_back(edge ? std::clamp<int64_t>(i, 0, size - 1) : ((i % size) + size) % size);
  return b.Op("GatherV2", {x, b.Ints(indices), b.Int32(axis)});
}

Output ReflectAxis(const Builder& b, Output x, int axis, int64_t before, int64_t after) {
  const int64_t size = DimOf(x, axis);
  if (size == kUnknownDim || size == 0 || before + after + size > (int64_t{1} << 24)) {
    b.Fail(FailedPrecondition("the size of axis {} must be known, not 0 and not too large", axis));
    return {};
  }
  const int64_t period = std::max<int64_t>(1, 2 * (size - 1));
  std::vector<int64_t> indices;
  for (int64_t i = -before; i < size + after; ++i) {
    const int64_t at = ((i % period) + period) % period;
    indices.push_back(at < size ? at : period - at);
  }
  return b.Op("GatherV2", {x, b.Ints(indices), b.Int32(axis)});
}

Status Pad(NodeContext& n) {
  const Builder& b = n.b();
  Output x = n.input(0);
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  std::vector<int64_t> pads, axes;
  Output value;
  if (n.opset() < 11) {
    pads = n.Ints(n.opset() == 1 ? "paddings" : "pads");
    value = b.ScalarLike(x, n.Float("value", 0));
  } else {
    RIVULET_ASSIGN_OR_RETURN(pads, n.IntValues(1));
    value = n.has_input(2) ? b.Reshape(n.input(2), std::vector<int64_t>{}) : b.ScalarLike(x, 0);
    if (n.has_input(3)) {
      RIVULET_ASSIGN_OR_RETURN(axes, n.IntValues(3));
    }
  }
  if (!n.has_input(3)) {
    axes.resize(static_cast<size_t>(rank));
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (pads.size() != 2 * axes.size())
    return InvalidArgument("{} amounts are given for {} axes", pads.size(), axes.size());
  std::vector<int64_t> before(static_cast<size_t>(rank), 0), after(static_cast<size_t>(rank), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    RIVULET_ASSIGN_OR_RETURN(const int axis, n.Axis(axes[i], rank));
    for (const auto& [list, amount] : {std::pair(&before, pads[i]), std::pair(&after, pads[i + axes.size()])}) {
      if (amount < -(int64_t{1} << 40) || amount > (int64_t{1} << 40))
        return InvalidArgument("axis {} is padded by {}", axis, amount);
      (*list)[static_cast<size_t>(axis)] = amount;
    }
  }
  const std::string mode = n.String("mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap")
    return Unimplemented("mode '{}'", mode);
  for (int axis = 0; axis < rank; ++axis) {
    int64_t &first = before[static_cast<size_t>(axis)], &last = after[static_cast<size_t>(axis)];
    const int64_t cut_before = std::max<int64_t>(0, -first), cut_after = std::max<int64_t>(0, -last);
    first = std::max<int64_t>(0, first);
    last = std::max<int64_t>(0, last);
    if (mode == "reflect" && (first > 0 || last > 0)) x = ReflectAxis(b, x, axis, first, last);
    if ((mode == "edge" || mode == "wrap") && (first > 0 || last > 0))
      x = PadAxis(b, x, axis, first, last, mode == "edge");
    if (cut_after > 0) {
      x = b.Slice(x, axis, cut_before, -cut_after);
    } else if (cut_before > 0) {
      x = b.From(x, axis, cut_before);
    }
  }
  n.set_output(0, b.Op("Identity", {mode == "constant" ? b.Pad(x, before, after, value) : x}));
  return n.status();
}
RIVULET_ONNX("Pad", Pad);

// Cut or padded with zeros on both sides to the sizes wanted; an odd element is cut, or put, at the end.
Status CenterCropPad(NodeContext& n) {
  const Builder& b = n.b();
  Output x = n.input(0);
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, n.IntValues(1));
  std::vector<int64_t> axes(static_cast<size_t>(rank)), before(axes.size(), 0), after = before;
  std::iota(axes.begin(), axes.end(), 0);
  if (n.has_attr("axes")) axes = n.Ints("axes");
  if (axes.size() != sizes.size()) return InvalidArgument("{} sizes are given for {} axes", sizes.size(), axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    RIVULET_ASSIGN_OR_RETURN(const int axis, n.Axis(axes[i], rank));
    const int64_t size = DimOf(x, axis), wanted = sizes[i];
    if (size == kUnknownDim) return FailedPrecondition("the size of axis {} must be known", axis);
    if (wanted < 0 || wanted > (int64_t{1} << 40)) return InvalidArgument("a size of {}", wanted);
    if (wanted < size) {
      x = b.Slice(x, axis, (size - wanted) / 2, (size - wanted) / 2 + wanted);
    } else {
      before[static_cast<size_t>(axis)] = (wanted - size) / 2;
      after[static_cast<size_t>(axis)] = wanted - size - (wanted - size) / 2;
    }
  }
  n.set_output(0, b.Op("Identity", {b.Pad(x, before, after)}));
  return n.status();
}
RIVULET_ONNX("CenterCropPad", CenterCropPad);

}  // namespace
}  // namespace rivulet::onnx
