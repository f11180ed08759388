// Windows of signal processing: cosine sums over `size` points.
#include <numbers>

#include "engine/onnx/operator.h"
#include "engine/onnx/tensor.h"

namespace rivulet::onnx {
namespace {

// a0 - a1 cos(2 π n / N) + a2 cos(4 π n / N), where N is size, or size - 1 of a symmetric window.
Status CosineWindow(NodeContext& n, double a0, double a1, double a2) {
  const Builder& b = n.b();
  RIVULET_ASSIGN_OR_RETURN(const int64_t size, n.IntValue(0));
  RIVULET_ASSIGN_OR_RETURN(const DType dtype, DTypeFromOnnx(static_cast<int>(n.Int("output_datatype", 1))));
  if (size < 1) return InvalidArgument("a window of {} points", size);
  const int64_t period = n.Flag("periodic", true) ? size : std::max<int64_t>(1, size - 1);
  const Output angle =
      b.Times(b.Cast(b.Iota(size, 1, 0), DType::kFloat64), 2 * std::numbers::pi / static_cast<double>(period));
  Output window = b.Plus(b.Times(b.Op("Cos", {angle}), -a1), a0);
  if (a2 != 0) window = b.Add(window, b.Times(b.Op("Cos", {b.Times(angle, 2)}), a2));
  n.set_output(0, b.Cast(window, dtype));
  return n.status();
}
RIVULET_ONNX("HannWindow", [](NodeContext& n) { return CosineWindow(n, 0.5, 0.5, 0); });
RIVULET_ONNX("HammingWindow", [](NodeContext& n) { return CosineWindow(n, 25.0 / 46, 1 - 25.0 / 46, 0); });
RIVULET_ONNX("BlackmanWindow", [](NodeContext& n) { return CosineWindow(n, 0.42, 0.5, 0.08); });

}  // namespace
}  // namespace rivulet::onnx
