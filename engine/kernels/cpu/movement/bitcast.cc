// Reinterpretation of bytes as another type, and counts of set bits.
#include <bit>
#include <cstring>

#include "engine/kernels/cpu/movement/copies.h"
#include "engine/kernels/cpu/strided/elementwise.h"
#include "engine/kernels/cpu/strided/function_kernel.h"
#include "engine/tensor/spec_bytes.h"

namespace rivulet {
namespace {

StatusOr<Prepared> PrepareBitcast(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(Prepared prepared,
                           MakeFunctionKernel([bytes = TensorBytes(node.inputs[0])](const KernelContext& c) -> Status {
                             if (bytes > 0 && c.outputs[0] != c.inputs[0])
                               std::memcpy(c.outputs[0], c.inputs[0], bytes);
                             return absl::OkStatus();
                           }));
  prepared.in_place = {{0, 0}};
  return prepared;
}

template <typename Word>
StatusOr<Prepared> MakePopulationCount(int64_t count) {
  return MakeFunctionKernel([count](const KernelContext& c) -> Status {
    for (int64_t i = 0; i < count; ++i)
      OutputOf<uint8_t>(c, 0)[i] = static_cast<uint8_t>(std::popcount(InputOf<Word>(c, 0)[i]));
    return absl::OkStatus();
  });
}

StatusOr<Prepared> PreparePopulationCount(const NodeView& node, const KernelPolicy&) {
  const int64_t count = node.inputs[0].shape.elements();
  switch (SizeOf(node.inputs[0].dtype)) {
    case 1:
      return MakePopulationCount<uint8_t>(count);
    case 2:
      return MakePopulationCount<uint16_t>(count);
    case 4:
      return MakePopulationCount<uint32_t>(count);
    default:
      return MakePopulationCount<uint64_t>(count);
  }
}

RIVULET_KERNEL_OF_EVERY_SIZE("Bitcast", PrepareBitcast);
RIVULET_KERNEL_OF_EVERY_SIZE("PopulationCount", PreparePopulationCount);

}  // namespace
}  // namespace rivulet
