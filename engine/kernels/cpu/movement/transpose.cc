// Transposes are strided copies; the inverse of a permutation is a loop.
#include <algorithm>

#include "engine/kernels/cpu/movement/copies.h"
#include "engine/kernels/cpu/strided/constant_input.h"
#include "engine/kernels/cpu/strided/elementwise.h"

namespace rivulet {
namespace {

using Ints = std::vector<int64_t>;

StatusOr<Prepared> PrepareTranspose(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const Ints perm, ConstantInput(node, 1, "the permutation"));
  const Ints own = RowMajorStrides(node.inputs[0].shape);
  Ints from;
  for (int64_t axis : perm) from.push_back(own[AxisOf(axis, node.inputs[0].shape.rank())]);
  const Shape& output = node.outputs[0].shape;
  std::vector<StridedCopy> copies;
  RIVULET_RETURN_IF_ERROR(AddCopy(copies, 0, 0, output.dims(), RowMajorStrides(output), std::move(from)));
  return PrepareCopies(node, std::move(copies));
}

template <typename T>
class InvertPermutationKernel final : public Kernel {
 public:
  explicit InvertPermutationKernel(int64_t count) : count_(count) {}
  Status Run(const KernelContext& context) const override {
    const T* in = InputOf<T>(context, 0);
    T* out = OutputOf<T>(context, 0);
    std::fill_n(out, count_, T{-1});
    for (int64_t i = 0; i < count_; ++i) {
      if (in[i] < 0 || in[i] >= count_ || out[in[i]] != T{-1})
        return InvalidArgument("x is no permutation: entry {} is {}", i, in[i]);
      out[in[i]] = static_cast<T>(i);
    }
    return absl::OkStatus();
  }

 private:
  int64_t count_;
};

template <typename T>
StatusOr<Prepared> PrepareInvertPermutation(const NodeView& node, const KernelPolicy&) {
  Prepared prepared;
  prepared.kernel = std::make_unique<InvertPermutationKernel<T>>(node.inputs[0].shape.dim(0));
  prepared.implementation = "loop";
  return prepared;
}

RIVULET_KERNEL_OF_EVERY_SIZE("Transpose", PrepareTranspose);
RIVULET_KERNEL("InvertPermutation", Device::kCpu, int32_t, PrepareInvertPermutation<int32_t>);
RIVULET_KERNEL("InvertPermutation", Device::kCpu, int64_t, PrepareInvertPermutation<int64_t>);

}  // namespace
}  // namespace rivulet
