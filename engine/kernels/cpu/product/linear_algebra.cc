// Qr: Householder reflections in float64 for any type; meant for initial values, not for speed.
#include <cmath>

#include "engine/kernels/cpu/strided/elementwise.h"
#include "engine/program/kernel.h"

namespace rivulet {
namespace {

template <typename T>
class QrKernel final : public Kernel {
 public:
  QrKernel(int64_t matrices, int64_t rows, int64_t columns, int64_t inner)
      : matrices_(matrices), rows_(rows), columns_(columns), inner_(inner) {}

  static size_t ScratchBytes(int64_t rows, int64_t columns) {
    return static_cast<size_t>(rows * columns + rows + std::min(rows, columns)) * sizeof(double);
  }

  Status Run(const KernelContext& context) const override {
    const T* in = InputOf<T>(context, 0);
    T *q = OutputOf<T>(context, 0), *r = OutputOf<T>(context, 1);
    double* a = reinterpret_cast<double*>(context.scratch);  // column-major: reflections below the diagonal, r above
    double* column = a + rows_ * columns_;
    double* scales = column + rows_;
    for (int64_t m = 0; m < matrices_; ++m) {
      for (int64_t i = 0; i < rows_; ++i)
        for (int64_t j = 0; j < columns_; ++j)
          a[j * rows_ + i] = static_cast<double>(in[(m * rows_ + i) * columns_ + j]);
      Reflect(a, scales);
      for (int64_t i = 0; i < inner_; ++i)
        for (int64_t j = 0; j < columns_; ++j)
          r[(m * inner_ + i) * columns_ + j] = i <= j ? static_cast<T>(a[j * rows_ + i]) : T(0);
      for (int64_t j = 0; j < inner_; ++j) {
        UnitReflected(a, scales, j, column);
        for (int64_t i = 0; i < rows_; ++i) q[(m * rows_ + i) * inner_ + j] = static_cast<T>(column[i]);
      }
    }
    return absl::OkStatus();
  }

 private:
  // Transforms `a` to r, column by column, by I − scale · v · vᵀ with v = (1, the values below the diagonal).
  void Reflect(double* a, double* scales) const {
    for (int64_t k = 0; k < std::min(rows_, columns_); ++k) {
      double below = 0;
      for (int64_t i = k + 1; i < rows_; ++i) below += a[k * rows_ + i] * a[k * rows_ + i];
      const double head = a[k * rows_ + k];
      scales[k] = 0;
      if (below == 0) continue;  // LAPACK leaves such a column unchanged, whatever its sign
      const double norm = std::copysign(std::sqrt(head * head + below), -head);
      scales[k] = (norm - head) / norm;
      for (int64_t i = k + 1; i < rows_; ++i) a[k * rows_ + i] /= head - norm;
      a[k * rows_ + k] = norm;
      for (int64_t j = k + 1; j < columns_; ++j) {
        double dot = a[j * rows_ + k];
        for (int64_t i = k + 1; i < rows_; ++i) dot += a[k * rows_ + i] * a[j * rows_ + i];
        dot *= scales[k];
        a[j * rows_ + k] -= dot;
        for (int64_t i = k + 1; i < rows_; ++i) a[j * rows_ + i] -= dot * a[k * rows_ + i];
      }
    }
  }

  // Column j of q: all reflections, the last first, applied to the unit vector, which those after j do not change.
  void UnitReflected(const double* a, const double* scales, int64_t j, double* column) const {
    for (int64_t i = 0; i < rows_; ++i) column[i] = i == j ? 1 : 0;
    for (int64_t k = std::min(j, std::min(rows_, columns_) - 1); k >= 0; --k) {
      double dot = column[k];
      for (int64_t i = k + 1; i < rows_; ++i) dot += a[k * rows_ + i] * column[i];
      dot *= scales[k];
      column[k] -= dot;
      for (int64_t i = k + 1; i < rows_; ++i) column[i] -= dot * a[k * rows_ + i];
    }
  }

  int64_t matrices_, rows_, columns_, inner_;
};

template <typename T>
StatusOr<Prepared> PrepareQr(const NodeView& node, const KernelPolicy&) {
  const Shape &input = node.inputs[0].shape, &q = node.outputs[0].shape;
  const int rank = input.rank();
  const int64_t rows = input.dim(rank - 2), columns = input.dim(rank - 1);
  int64_t matrices = 1;
  for (int axis = 0; axis < rank - 2; ++axis) matrices *= input.dim(axis);
  Prepared prepared;
  prepared.kernel = std::make_unique<QrKernel<T>>(matrices, rows, columns, q.dim(rank - 1));
  prepared.scratch_bytes = QrKernel<T>::ScratchBytes(rows, columns);
  prepared.implementation = "loop";
  return prepared;
}

RIVULET_KERNEL("Qr", Device::kCpu, float, PrepareQr<float>);
RIVULET_KERNEL("Qr", Device::kCpu, double, PrepareQr<double>);

}  // namespace
}  // namespace rivulet
