// Pools over one, two or three spatial axes, and over all of them. The engine's pools are two-dimensional: one axis is
// two with a height of 1, three are the pool of each plane and then of the depth. What they have no option for
// (dilation, padding as large as the window, positions of the largest) is a fold over the window's places.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "engine/onnx/window.h"

namespace rivulet::onnx {
namespace {

struct Pool {
  Output x;
  int rank = 0;
  std::vector<Window> windows;
};

StatusOr<Pool> PoolOf(NodeContext& n) {
  Pool pool{n.input(0)};
  RIVULET_ASSIGN_OR_RETURN(pool.rank, n.Rank(0));
  const std::vector<int64_t> kernel = n.Ints("kernel_shape");
  if (pool.rank < 3 || kernel.size() != static_cast<size_t>(pool.rank - 2))
    return InvalidArgument("kernel_shape has {} sizes, but the image is {}", kernel.size(), ShapeOf(pool.x).ToString());
  RIVULET_ASSIGN_OR_RETURN(pool.windows, WindowsOf(n, pool.x, kernel));
  return pool;
}

bool AllKnown(const std::vector<Window>& windows) {
  return std::ranges::all_of(windows, [](const Window& w) { return w.output != kUnknownDim; });
}

// The engine's own pool of [batch, channels, height, width] without padding.
Output Pool2d(const Builder& b, std::string_view op, Output x, const Window& height, const Window& width) {
  return b.Op(op, {x},
              {{"ksize", std::vector<int64_t>{1, 1, height.kernel, width.kernel}},
               {"strides", std::vector<int64_t>{1, 1, height.stride, width.stride}},
               {"padding", std::string("VALID")},
               {"data_format", std::string("NCHW")}});
}

// An undilated pool of an image that already holds its padding; the spatial sizes of a three-dimensional one are known.
Output PoolPadded(const Builder& b, std::string_view op, Output x, const std::vector<Window>& windows) {
  if (windows.size() == 1) return b.Squeeze(Pool2d(b, op, b.ExpandDims(x, 2), {}, windows[0]), 2);
  if (windows.size() == 2) return Pool2d(b, op, x, windows[0], windows[1]);
  // [n, c, d, h, w]: planes first, then the depth of [n, c, d, h' w'].
  const Output batch = b.Dim(x, 0), channels = b.Dim(x, 1), depth = b.Dim(x, 2);
  Output y = b.Shaped(x, {batch, b.Int(-1), b.Dim(x, 3), b.Dim(x, 4)});
  y = Pool2d(b, op, y, windows[1], windows[2]);
  const Output height = b.Dim(y, 2), width = b.Dim(y, 3);
  y = Pool2d(b, op, b.Shaped(y, {batch, channels, depth, b.Int(-1)}), windows[0], {});
  return b.Shaped(y, {batch, channels, b.Int(windows[0].output), height, width});
}

// The image with its padding and the excess of the last window.
Output Padded(const Builder& b, const Pool& pool, double value) {
  std::vector<int64_t> before(static_cast<size_t>(pool.rank), 0), after = before;
  for (size_t i = 0; i < pool.windows.size(); ++i) {
    before[i + 2] = pool.windows[i].before;
    after[i + 2] = pool.windows[i].after + (pool.windows[i].output == kUnknownDim ? 0 : pool.windows[i].beyond());
  }
  return b.Pad(pool.x, before, after, value);
}

// The elements at the window's place k of one axis, for every position of the window.
Output Places(const Builder& b, Output x, int axis, const Window& window, int64_t k) {
  const int64_t first = k * window.dilation;
  return b.Slice(x, axis, first, first + (window.output - 1) * window.stride + 1, window.stride);
}

// A pool of a padded image by folding, one axis after the other.
Output Folded(const Builder& b, std::string_view op, Output x, const std::vector<Window>& windows) {
  for (const Window& window : windows) {
    if (window.kernel <= 4096) continue;
    b.Fail(ResourceExhausted("a window of {} places", window.kernel));
    return {};
  }
  for (size_t i = 0; i < windows.size(); ++i) {
    Output all;
    for (int64_t k = 0; k < windows[i].kernel; ++k) {
      const Output part = Places(b, x, static_cast<int>(i) + 2, windows[i], k);
      all = all ? b.Op(op, {all, part}) : part;
    }
    x = all;
  }
  return x;
}

bool Dilated(const std::vector<Window>& windows) {
  return std::ranges::any_of(windows, [](const Window& w) { return w.dilation != 1; });
}

double Lowest(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return -128;
    case DType::kUint8:
      return 0;
    default:
      return -std::numeric_limits<double>::infinity();
  }
}

// Positions in the flattened image, without padding; storage_order 1 counts the spatial axes in reverse.
Status Positions(NodeContext& n, const Pool& pool, Output padded, bool reversed) {
  const Builder& b = n.b();
  const Shape& shape = ShapeOf(pool.x);
  if (!shape.IsFullyKnown()) return FailedPrecondition("the shape of input 0 must be known");
  int64_t places = 1, plane = 1;
  std::vector<int64_t> stride(pool.windows.size(), 1);
  for (size_t i = 0; i < stride.size(); ++i) {
    const size_t axis = reversed ? i : stride.size() - 1 - i;
    stride[axis] = plane;
    plane *= pool.windows[axis].input;
    places *= pool.windows[i].kernel;
    if (places > 4096) return ResourceExhausted("positions in a window of {} places", places);
  }
  Output best, where;
  for (int64_t place = 0; place < places; ++place) {
    Output value = padded, index = b.Int(0);
    int64_t rest = place;
    for (size_t i = pool.windows.size(); i-- > 0;) {
      const Window& window = pool.windows[i];
      const int64_t k = rest % window.kernel;
      rest /= window.kernel;
      value = Places(b, value, static_cast<int>(i) + 2, window, k);
      const Output at = b.Add(b.Mul(b.Iota(window.output, pool.rank, static_cast<int>(i) + 2), b.Int(window.stride)),
                              b.Int(k * window.dilation - window.before));
      index = b.Add(index, b.Mul(at, b.Int(stride[i])));
    }
    index = b.BroadcastTo(index, b.Dims(value));
    if (best) {
      const Output larger = b.Op("Greater", {value, best});
      where = b.Select(larger, index, where);
      best = b.Select(larger, value, best);
    } else {
      best = value;
      where = index;
    }
  }
  const Output example = b.Mul(b.Iota(shape.dim(0), pool.rank, 0), b.Int(shape.dim(1) * plane));
  const Output channel = b.Mul(b.Iota(shape.dim(1), pool.rank, 1), b.Int(plane));
  n.set_output(0, best);
  n.set_output(1, b.Add(where, b.Add(example, channel)));
  return n.status();
}

Status MaxPool(NodeContext& n) {
  const Builder& b = n.b();
  RIVULET_ASSIGN_OR_RETURN(const Pool pool, PoolOf(n));
  const Output padded = Padded(b, pool, Lowest(TypeOf(pool.x)));
  const bool folded = Dilated(pool.windows) || n.wants_output(1);
  if ((folded || pool.windows.size() > 2) && !AllKnown(pool.windows))
    return FailedPrecondition("the image's sizes must be known, not {}", ShapeOf(pool.x).ToString());
  if (pool.windows.size() > 3 && !folded) {
    n.set_output(0, Folded(b, "Maximum", padded, pool.windows));
    return n.status();
  }
  if (n.wants_output(1)) return Positions(n, pool, padded, n.Flag("storage_order", false));
  n.set_output(0, folded ? Folded(b, "Maximum", padded, pool.windows) : PoolPadded(b, "MaxPool", padded, pool.windows));
  return n.status();
}
RIVULET_ONNX("MaxPool", MaxPool);

// Each element put back to the position that MaxPool's second output names, zeros elsewhere.
Status MaxUnpool(NodeContext& n) {
  const Builder& b = n.b();
  RIVULET_ASSIGN_OR_RETURN(const Shape shape, n.KnownShape(0));
  const std::vector<int64_t> kernel = n.Ints("kernel_shape");
  const size_t axes = kernel.size();
  const std::vector<int64_t> strides = n.Ints("strides", std::vector<int64_t>(axes, 1)),
                             pads = n.Ints("pads", std::vector<int64_t>(2 * axes, 0));
  if (axes + 2 != static_cast<size_t>(shape.rank()) || strides.size() != axes || pads.size() != 2 * axes)
    return InvalidArgument("kernel_shape, strides or pads are not for the image {}", shape.ToString());
  std::vector<int64_t> sizes = {shape.dim(0), shape.dim(1)}, none(axes + 2, 0), after = none;
  for (size_t i = 0; i < axes; ++i) {
    constexpr int64_t limit = 1 << 16;
    for (int64_t value : {kernel[i], strides[i], pads[i], pads[i + axes]})
      if (value < 0 || value > limit) return InvalidArgument("a window, stride or padding of {}", value);
    sizes.push_back((shape.dim(static_cast<int>(i) + 2) - 1) * strides[i] - pads[i] - pads[i + axes] + kernel[i]);
    if (sizes.back() < 1) return InvalidArgument("the result has a size of {}", sizes.back());
  }
  RIVULET_ASSIGN_OR_RETURN(const int64_t elements, Shape(sizes).CheckedElements());
  const Output zeros = b.Filled(TypeOf(n.input(0)), b.Ints({elements}), 0);
  const Output flat = b.Op("ScatterAlongAxis", {zeros, b.Reshape(n.input(1), {-1}), b.Reshape(n.input(0), {-1})},
                           {{"axis", int64_t{0}}});
  Output y = b.Reshape(flat, sizes);
  if (n.has_input(2)) {
    RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> wanted, n.IntValues(2));
    if (wanted.size() != sizes.size()) return InvalidArgument("output_shape has {} sizes", wanted.size());
    for (size_t i = 0; i < sizes.size(); ++i) {
      after[i] = wanted[i] - sizes[i];
      if (after[i] < 0 || after[i] > (int64_t{1} << 40))
        return InvalidArgument("output_shape {} is below the {} of axis {}", wanted[i], sizes[i], i);
    }
    y = b.Pad(y, none, after);
  }
  n.set_output(0, y);
  return n.status();
}
RIVULET_ONNX("MaxUnpool", MaxUnpool);

// How many of a window's places count, for each of its positions along one axis.
std::vector<float> Counts(const Window& window, bool count_padding) {
  std::vector<float> counts;
  for (int64_t o = 0; o < window.output; ++o) {
    int64_t count = 0;
    for (int64_t k = 0; k < window.kernel; ++k) {
      const int64_t at = o * window.stride + k * window.dilation - window.before;
      count += count_padding ? at < window.input + window.after : at >= 0 && at < window.input;
    }
    counts.push_back(static_cast<float>(std::max<int64_t>(1, count)));
  }
  return counts;
}

// The sum of each window of the image padded with zeros.
StatusOr<Output> WindowSums(NodeContext& n, const Pool& pool, double& area) {
  const Builder& b = n.b();
  area = 1;
  for (const Window& window : pool.windows) area *= static_cast<double>(window.kernel);
  const Output padded = Padded(b, pool, 0);
  if (!Dilated(pool.windows) && pool.windows.size() <= 3) {
    if (pool.windows.size() == 3 && !AllKnown(pool.windows))
      return FailedPrecondition("the image's sizes must be known, not {}", ShapeOf(pool.x).ToString());
    return PoolPadded(b, "AvgPool", padded, pool.windows);  // the mean, which is the sum over `area`
  }
  if (!AllKnown(pool.windows))
    return FailedPrecondition("the image's sizes must be known, not {}", ShapeOf(pool.x).ToString());
  return b.Times(Folded(b, "AddV2", padded, pool.windows), 1 / area);
}

Status AveragePool(NodeContext& n) {
  const Builder& b = n.b();
  RIVULET_ASSIGN_OR_RETURN(const Pool pool, PoolOf(n));
  const bool count_padding = n.Flag("count_include_pad", false);
  double area = 1;
  RIVULET_ASSIGN_OR_RETURN(Output mean, WindowSums(n, pool, area));
  // Where a window holds places that do not count, the mean is over fewer.
  for (size_t i = 0; i < pool.windows.size(); ++i) {
    const Window& window = pool.windows[i];
    const bool padded = window.before > 0 || window.after > 0;
    if (window.output == kUnknownDim) {
      if (padded && !count_padding)
        return FailedPrecondition("the image's sizes must be known, not {}", ShapeOf(pool.x).ToString());
      continue;
    }
    if (!padded && window.beyond() == 0) continue;
    if (window.output * window.kernel > (int64_t{1} << 26))
      return ResourceExhausted("a pool of {} positions", window.output);
    const std::vector<float> counts = Counts(window, count_padding);
    std::vector<float> factors;
    for (float count : counts) factors.push_back(static_cast<float>(window.kernel) / count);
    std::vector<int64_t> dims(static_cast<size_t>(pool.rank), 1);
    dims[i + 2] = window.output;
    const Output factor = b.Const(Tensor::Of<float>(Shape(dims), std::span<const float>(factors)));
    mean = b.Mul(mean, b.Cast(factor, TypeOf(mean)));
  }
  n.set_output(0, mean);
  return n.status();
}
RIVULET_ONNX("AveragePool", AveragePool);

// (Σ |x|^p)^(1/p).
Output Raised(const Builder& b, Output x, double p) {
  const Output size = b.Op("Abs", {x});
  return p == 1 ? size : p == 2 ? b.Square(size) : b.Power(size, p);
}
Output Rooted(const Builder& b, Output x, double p) { return p == 1 ? x : p == 2 ? b.Sqrt(x) : b.Power(x, 1 / p); }

Status LpPool(NodeContext& n) {
  const Builder& b = n.b();
  RIVULET_ASSIGN_OR_RETURN(Pool pool, PoolOf(n));
  const double p = n.opset() < 2 ? n.Float("p", 2) : static_cast<double>(n.Int("p", 2));
  if (!(p > 0)) return InvalidArgument("p is {}", p);
  pool.x = Raised(b, pool.x, p);
  double area = 1;
  RIVULET_ASSIGN_OR_RETURN(const Output mean, WindowSums(n, pool, area));
  n.set_output(0, Rooted(b, b.Times(mean, area), p));
  return n.status();
}
RIVULET_ONNX("LpPool", LpPool);

Status Global(NodeContext& n, const std::function<Output(const Builder&, const std::vector<int64_t>&)>& reduce) {
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  if (rank < 3) return InvalidArgument("the image {} has no spatial axes", ShapeOf(n.input(0)).ToString());
  std::vector<int64_t> axes(static_cast<size_t>(rank - 2));
  std::iota(axes.begin(), axes.end(), 2);
  n.set_output(0, reduce(n.b(), axes));
  return n.status();
}
RIVULET_ONNX("GlobalAveragePool", [](NodeContext& n) {
  return Global(n, [&](const Builder& b, const auto& axes) { return b.Reduce("Mean", n.input(0), axes, true); });
});
RIVULET_ONNX("GlobalMaxPool", [](NodeContext& n) {
  return Global(n, [&](const Builder& b, const auto& axes) { return b.Reduce("Max", n.input(0), axes, true); });
});
RIVULET_ONNX("GlobalLpPool", [](NodeContext& n) {
  const double p = n.opset() < 2 ? n.Float("p", 2) : static_cast<double>(n.Int("p", 2));
  return Global(n, [&](const Builder& b, const auto& axes) {
    return Rooted(b, b.Reduce("Sum", Raised(b, n.input(0), p), axes, true), p);
  });
});

}  // namespace
}  // namespace rivulet::onnx
