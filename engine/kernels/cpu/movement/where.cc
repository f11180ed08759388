// The index vectors of non-zero elements. Their number was known when the program was compiled.
#include "engine/kernels/cpu/movement/copies.h"
#include "engine/kernels/cpu/strided/elementwise.h"
#include "engine/tensor/float16.h"

namespace rivulet {
namespace {

// `mask` removes bits that do not matter: the sign of a float.
template <typename Word>
class WhereKernel final : public Kernel {
 public:
  WhereKernel(const Shape& shape, int64_t count, Word mask)
      : dims_(shape.dims().begin(), shape.dims().end()), elements_(shape.elements()), count_(count), mask_(mask) {}
  Status Run(const KernelContext& context) const override {
    const Word* in = InputOf<Word>(context, 0);
    int64_t* out = OutputOf<int64_t>(context, 0);
    int64_t found = 0;
    for (int64_t i = 0; i < elements_; ++i) {
      if ((in[i] & mask_) == 0) continue;
      if (found++ == count_) break;
      int64_t rest = i;
      for (size_t axis = dims_.size(); axis-- > 0; rest /= dims_[axis]) out[axis] = rest % dims_[axis];
      out += dims_.size();
    }
    if (found != count_)
      return InvalidArgument("the number of non-zero elements is not the {} for which the program was compiled",
                             count_);
    return absl::OkStatus();
  }

 private:
  std::vector<int64_t> dims_;
  int64_t elements_, count_;
  Word mask_;
};

template <typename Word>
std::unique_ptr<const Kernel> MakeWhere(const Shape& shape, int64_t count, bool floating) {
  return std::make_unique<WhereKernel<Word>>(shape, count,
                                             static_cast<Word>(floating ? static_cast<Word>(~Word{0}) >> 1 : ~Word{0}));
}

StatusOr<Prepared> PrepareWhere(const NodeView& node, const KernelPolicy&) {
  const TensorSpec& input = node.inputs[0];
  Prepared prepared;
  RIVULET_ASSIGN_OR_RETURN(prepared.kernel, ForElementSize(input.dtype, [&](auto word) {
                             return MakeWhere<decltype(word)>(input.shape, node.outputs[0].shape.dim(0),
                                                              IsFloating(input.dtype));
                           }));
  prepared.implementation = "loop";
  return prepared;
}

RIVULET_KERNEL_OF_EVERY_SIZE("Where", PrepareWhere);

}  // namespace
}  // namespace rivulet
