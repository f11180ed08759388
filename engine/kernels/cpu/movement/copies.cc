#include "engine/kernels/cpu/movement/copies.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "engine/kernels/cpu/movement/choose.h"

#pragma GCC optimize("O3")

namespace rivulet {
namespace {

// `Word` has the size of an element; the type does not matter.
template <typename Word>
class CopiesKernel final : public Kernel, public HasCopyPlan {
 public:
  CopiesKernel(CopyPlan plan, int64_t elements) : plan_(std::move(plan)), elements_(elements) {
    for (const StridedCopy& copy : plan_.copies) algorithms_.push_back(ChooseCopy(copy.walk, sizeof(Word)));
  }
  const CopyPlan& plan() const override { return plan_; }
  Status Run(const KernelContext& context) const override {
    Word* const out = reinterpret_cast<Word*>(context.outputs[0]);
    if (plan_.zero_first && elements_ > 0) std::memset(out, 0, static_cast<size_t>(elements_) * sizeof(Word));
    if (plan_.fill_input >= 0)
      std::fill_n(out, elements_,
                  *reinterpret_cast<const Word*>(context.inputs[static_cast<size_t>(plan_.fill_input)]));
    for (const StridedCopy& copy : plan_.copies) {
      Word* to = reinterpret_cast<Word*>(context.outputs[static_cast<size_t>(copy.output)]);
      const Word* from = reinterpret_cast<const Word*>(context.inputs[static_cast<size_t>(copy.input)]);
      switch (algorithms_[static_cast<size_t>(&copy - plan_.copies.data())]) {
        case CopyAlgorithm::kTransposeTiles:
          Transposing(copy.walk, to, from);
          continue;
        case CopyAlgorithm::kBlocks:
          BlocksOf(copy.walk)(copy.walk, to, from);
          continue;
        case CopyAlgorithm::kRows:
          break;
      }
      copy.walk.ForEachRow([&](const std::array<int64_t, 2>& at, const std::array<int64_t, 2>& stride, int64_t count) {
        Row(to + at[0], stride[0], from + at[1], stride[1], count);
      });
    }
    return absl::OkStatus();
  }

 private:
  // In tiles of a cache line in both directions.
  static void Transposing(const StridedWalk<2>& walk, Word* to, const Word* from) {
    const auto last = static_cast<size_t>(walk.axes - 1);
    const int64_t rows = walk.dims[last - 1], columns = walk.dims[last];
    const int64_t to_row = walk.strides[0][last - 1], from_column = walk.strides[1][last];
    StridedWalk<2> outer = walk;
    outer.axes = walk.axes - 2;
    if (outer.axes == 0) {
      outer.axes = 1;
      outer.dims[0] = rows == 0 || columns == 0 ? 0 : 1;
    }
    outer.ForEachRow([&](const std::array<int64_t, 2>& at, const std::array<int64_t, 2>& stride, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        Word* matrix = to + at[0] + i * stride[0];
        const Word* source = from + at[1] + i * stride[1];
        for (int64_t row0 = 0; row0 < rows; row0 += kTransposeTile) {
          const int64_t row1 = std::min(rows, row0 + kTransposeTile);
          for (int64_t column0 = 0; column0 < columns; column0 += kTransposeTile) {
            const int64_t column1 = std::min(columns, column0 + kTransposeTile);
            for (int64_t row = row0; row < row1; ++row)
              for (int64_t column = column0; column < column1; ++column)
                matrix[row * to_row + column] = source[column * from_column + row];
          }
        }
      }
    });
  }

  using BlocksFn = void (*)(const StridedWalk<2>& walk, Word* to, const Word* from);
  static BlocksFn BlocksOf(const StridedWalk<2>& walk) {
    const auto last = static_cast<size_t>(walk.axes - 1);
    switch (static_cast<size_t>(walk.dims[last]) * sizeof(Word)) {
      case 16:
        return Blocks<16>;
      case 32:
        return Blocks<32>;
      case 64:
        return Blocks<64>;
      case 128:
        return Blocks<128>;
      default:
        return Blocks<256>;
    }
  }
  template <size_t kBytes>
  static void Blocks(const StridedWalk<2>& walk, Word* to, const Word* from) {
    StridedWalk<2> outer = walk;
    --outer.axes;
    outer.ForEachRow([&](const std::array<int64_t, 2>& at, const std::array<int64_t, 2>& stride, int64_t count) {
      Word* block = to + at[0];
      const Word* source = from + at[1];
      for (int64_t i = 0; i < count; ++i, block += stride[0], source += stride[1]) std::memcpy(block, source, kBytes);
    });
  }

  static void Row(Word* to, int64_t to_stride, const Word* from, int64_t from_stride, int64_t count) {
    if (to_stride == 1 && from_stride == 1) {
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(Word));
    } else if (to_stride == 1 && from_stride == 0) {
      const Word value = *from;
      for (int64_t i = 0; i < count; ++i) to[i] = value;
    } else if (to_stride == 1) {
      for (int64_t i = 0; i < count; ++i) to[i] = from[i * from_stride];
    } else {
      for (int64_t i = 0; i < count; ++i) to[i * to_stride] = from[i * from_stride];
    }
  }

  CopyPlan plan_;
  std::vector<CopyAlgorithm> algorithms_;  // one per copy
  int64_t elements_;
};

template <typename Word>
std::unique_ptr<const Kernel> MakeCopies(CopyPlan plan, int64_t elements) {
  return std::make_unique<CopiesKernel<Word>>(std::move(plan), elements);
}

}  // namespace

Status AddCopy(std::vector<StridedCopy>& copies, int input, int output, std::span<const int64_t> dims,
               std::vector<int64_t> to, std::vector<int64_t> from, int64_t to_offset, int64_t from_offset) {
  RIVULET_ASSIGN_OR_RETURN(auto walk, MakeWalk<2>(dims, {std::move(to), std::move(from)}, {to_offset, from_offset}));
  copies.push_back({input, output, walk});
  return absl::OkStatus();
}

StatusOr<Prepared> PrepareCopies(const NodeView& node, std::vector<StridedCopy> copies, bool zero_first,
                                 int fill_input) {
  const int64_t elements = node.outputs[0].shape.elements();
  CopyPlan plan{std::move(copies), zero_first, fill_input};
  Prepared prepared;
  prepared.implementation = "copy";
  RIVULET_ASSIGN_OR_RETURN(prepared.kernel, ForElementSize(node.outputs[0].dtype, [&](auto word) {
                             return MakeCopies<decltype(word)>(std::move(plan), elements);
                           }));
  return prepared;
}

StatusOr<CopyPlan> PlanCopies(const NodeView& node) {
  RIVULET_ASSIGN_OR_RETURN(const PrepareFn* const prepare,
                           KernelRegistry::Global().Find(node.node.type(), Device::kCpu, KernelDType(node.node)));
  RIVULET_ASSIGN_OR_RETURN(const Prepared prepared, (*prepare)(node, {}));
  const auto* const planned = dynamic_cast<const HasCopyPlan*>(prepared.kernel.get());
  if (planned == nullptr)
    return Unimplemented("{} does more than copy elements to places known beforehand", node.node.type());
  return planned->plan();
}

uint64_t BitsOfOne(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return std::bit_cast<uint32_t>(1.0f);
    case DType::kFloat64:
      return std::bit_cast<uint64_t>(1.0);
    case DType::kBFloat16:
      return bfloat16(1.0f).bits;
    case DType::kFloat16:
      return float16(1.0f).bits;
    default:
      return 1;  // integers, and true
  }
}

}  // namespace rivulet
