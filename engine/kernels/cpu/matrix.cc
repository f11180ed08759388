// Bands and diagonals of the matrices in the last two axes.
#include <algorithm>
#include <cstring>

#include "engine/kernels/cpu/copies.h"
#include "engine/kernels/cpu/elementwise.h"

namespace rivulet {
namespace {

using Ints = std::vector<int64_t>;

template <typename Word>
class BandPartKernel final : public Kernel {
 public:
  BandPartKernel(int64_t matrices, int64_t rows, int64_t columns, bool wide)
      : matrices_(matrices), rows_(rows), columns_(columns), wide_(wide) {}
  Status Run(const KernelContext& context) const override {
    const Word* in = InputOf<Word>(context, 0);
    Word* out = OutputOf<Word>(context, 0);
    const int64_t lower = Number(context, 1), upper = Number(context, 2);
    if (lower > rows_ || upper > columns_)
      return InvalidArgument("num_lower {} and num_upper {} are beyond matrices of {}x{}", lower, upper, rows_,
                             columns_);
    for (int64_t matrix = 0; matrix < matrices_; ++matrix) {
      for (int64_t row = 0; row < rows_; ++row, in += columns_, out += columns_) {
        const int64_t first = lower < 0 ? 0 : std::clamp<int64_t>(row - lower, 0, columns_);
        const int64_t last = upper < 0 ? columns_ : std::clamp<int64_t>(row + upper + 1, first, columns_);
        std::fill_n(out, first, Word{0});
        if (in != out) std::copy(in + first, in + last, out + first);
        std::fill(out + last, out + columns_, Word{0});
      }
    }
    return absl::OkStatus();
  }

 private:
  int64_t Number(const KernelContext& context, size_t i) const {
    return wide_ ? *InputOf<int64_t>(context, i) : int64_t{*InputOf<int32_t>(context, i)};
  }
  int64_t matrices_, rows_, columns_;
  bool wide_;
};

template <typename Word>
std::unique_ptr<const Kernel> MakeBandPart(const Shape& shape, bool wide) {
  const int64_t rows = shape.dim(shape.rank() - 2), columns = shape.dim(shape.rank() - 1);
  const int64_t matrices = rows * columns == 0 ? 0 : shape.elements() / (rows * columns);
  return std::make_unique<BandPartKernel<Word>>(matrices, rows, columns, wide);
}

StatusOr<Prepared> PrepareBandPart(const NodeView& node, const KernelPolicy&) {
  Prepared prepared;
  RIVULET_ASSIGN_OR_RETURN(prepared.kernel, ForElementSize(node.inputs[0].dtype, [&](auto word) {
                             return MakeBandPart<decltype(word)>(node.inputs[0].shape,
                                                                 node.inputs[1].dtype == DType::kInt64);
                           }));
  prepared.in_place = {{0, 0}};
  prepared.implementation = "copy";
  return prepared;
}

// Strides of the diagonals inside the matrices of `matrices`.
Ints DiagonalStrides(const Shape& matrices) {
  Ints strides = RowMajorStrides(matrices);
  const int64_t step = strides[strides.size() - 2] + strides.back();
  strides.pop_back();
  strides.back() = step;
  return strides;
}

StatusOr<Prepared> PrepareDiag(const NodeView& node, const KernelPolicy&) {
  const Shape& diagonal = node.inputs[0].shape;
  std::vector<StridedCopy> copies;
  RIVULET_RETURN_IF_ERROR(
      AddCopy(copies, 0, 0, diagonal.dims(), DiagonalStrides(node.outputs[0].shape), RowMajorStrides(diagonal)));
  return PrepareCopies(node, std::move(copies), /*zero_first=*/true);
}

StatusOr<Prepared> PrepareDiagPart(const NodeView& node, const KernelPolicy&) {
  const Shape& diagonal = node.outputs[0].shape;
  std::vector<StridedCopy> copies;
  RIVULET_RETURN_IF_ERROR(
      AddCopy(copies, 0, 0, diagonal.dims(), RowMajorStrides(diagonal), DiagonalStrides(node.inputs[0].shape)));
  return PrepareCopies(node, std::move(copies));
}

StatusOr<Prepared> PrepareSetDiag(const NodeView& node, const KernelPolicy&) {
  const Shape &matrices = node.inputs[0].shape, &diagonal = node.inputs[1].shape;
  std::vector<StridedCopy> copies;
  const Ints all = RowMajorStrides(matrices);
  RIVULET_RETURN_IF_ERROR(AddCopy(copies, 0, 0, matrices.dims(), all, all));
  RIVULET_RETURN_IF_ERROR(AddCopy(copies, 1, 0, diagonal.dims(), DiagonalStrides(matrices), RowMajorStrides(diagonal)));
  return PrepareCopies(node, std::move(copies));
}

RIVULET_KERNEL_OF_EVERY_SIZE("MatrixBandPart", PrepareBandPart);
RIVULET_KERNEL_OF_EVERY_SIZE("MatrixDiag", PrepareDiag);
RIVULET_KERNEL_OF_EVERY_SIZE("MatrixDiagPart", PrepareDiagPart);
RIVULET_KERNEL_OF_EVERY_SIZE("MatrixSetDiag", PrepareSetDiag);

}  // namespace
}  // namespace rivulet
