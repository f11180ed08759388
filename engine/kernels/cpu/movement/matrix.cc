// Bands and diagonals of the matrices in the last two axes.
#include <algorithm>
#include <cstring>

#include "engine/kernels/cpu/movement/copies.h"
#include "engine/kernels/cpu/strided/constant_input.h"
#include "engine/kernels/cpu/strided/elementwise.h"
#include "engine/ops/diagonals.h"

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

// Strides of the diagonals in the matrices of `matrices`.
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

constexpr int64_t kMaxDiagonals = 1 << 16;

// Adds copies between the diagonals of `matrices` and rows of `band` (the last diagonal first), in either direction.
Status AddDiagonals(std::vector<StridedCopy>& copies, const NodeView& node, int k_input, int from,
                    const Shape& matrices, const Shape& diagonals, bool to_matrices) {
  RIVULET_ASSIGN_OR_RETURN(const Ints k, ConstantInput(node, k_input, "k"));
  RIVULET_ASSIGN_OR_RETURN(DiagonalBand band, DiagonalBand::Of(k));
  band.rows = matrices.dim(matrices.rank() - 2);
  band.columns = matrices.dim(matrices.rank() - 1);
  if (band.count() > kMaxDiagonals)
    return Unimplemented("{} '{}' of {} diagonals", node.node.type(), node.node.name(), band.count());
  const std::string& align = node.attr<std::string>("align");
  const Ints in_band = RowMajorStrides(diagonals);
  const Ints own = RowMajorStrides(matrices);
  for (int64_t d = band.lower; d <= band.upper; ++d) {
    Ints dims(matrices.dims().begin(), matrices.dims().end() - 2);
    Ints of_matrix = DiagonalStrides(matrices), of_band = in_band;
    int64_t band_offset = band.Offset(d, align);
    if (band.count() > 1) {
      of_band.erase(of_band.end() - 2);
      band_offset += (band.upper - d) * in_band[in_band.size() - 2];
    }
    const int64_t matrix_offset = d >= 0 ? d : -d * own[own.size() - 2];
    dims.push_back(band.Length(d));
    if (std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim == 0; })) continue;
    RIVULET_RETURN_IF_ERROR(to_matrices
                                ? AddCopy(copies, from, 0, dims, of_matrix, of_band, matrix_offset, band_offset)
                                : AddCopy(copies, from, 0, dims, of_band, of_matrix, band_offset, matrix_offset));
  }
  return absl::OkStatus();
}

StatusOr<Prepared> PrepareDiagV3(const NodeView& node, const KernelPolicy&) {
  std::vector<StridedCopy> copies;
  RIVULET_RETURN_IF_ERROR(
      AddDiagonals(copies, node, 1, 0, node.outputs[0].shape, node.inputs[0].shape, /*to_matrices=*/true));
  return PrepareCopies(node, std::move(copies), /*zero_first=*/false, /*fill_input=*/4);
}

StatusOr<Prepared> PrepareDiagPartV3(const NodeView& node, const KernelPolicy&) {
  std::vector<StridedCopy> copies;
  RIVULET_RETURN_IF_ERROR(
      AddDiagonals(copies, node, 1, 0, node.inputs[0].shape, node.outputs[0].shape, /*to_matrices=*/false));
  return PrepareCopies(node, std::move(copies), /*zero_first=*/false, /*fill_input=*/2);
}

StatusOr<Prepared> PrepareSetDiagV3(const NodeView& node, const KernelPolicy&) {
  const Shape& matrices = node.inputs[0].shape;
  std::vector<StridedCopy> copies;
  const Ints all = RowMajorStrides(matrices);
  RIVULET_RETURN_IF_ERROR(AddCopy(copies, 0, 0, matrices.dims(), all, all));
  RIVULET_RETURN_IF_ERROR(AddDiagonals(copies, node, 2, 1, matrices, node.inputs[1].shape, /*to_matrices=*/true));
  return PrepareCopies(node, std::move(copies));
}

RIVULET_KERNEL_OF_EVERY_SIZE("MatrixDiagV3", PrepareDiagV3);
RIVULET_KERNEL_OF_EVERY_SIZE("MatrixDiagPartV3", PrepareDiagPartV3);
RIVULET_KERNEL_OF_EVERY_SIZE("MatrixSetDiagV3", PrepareSetDiagV3);
RIVULET_KERNEL_OF_EVERY_SIZE("MatrixBandPart", PrepareBandPart);
RIVULET_KERNEL_OF_EVERY_SIZE("MatrixDiag", PrepareDiag);
RIVULET_KERNEL_OF_EVERY_SIZE("MatrixDiagPart", PrepareDiagPart);
RIVULET_KERNEL_OF_EVERY_SIZE("MatrixSetDiag", PrepareSetDiag);

}  // namespace
}  // namespace rivulet
