// Numbers of the functions in elementwise chains (engine/program/gpu_elements.h): those of elementwise_list.h and some
// that only chains have.
#pragma once

#include <cstdint>

#include "engine/gpu/element_chain.h"
#include "engine/kernels/cuda/elementwise_list.h"

// Lists name a function once per type; this uses the float's entries.
#define RIVULET_ELEMENT_OF_float(M, F) M(F)
#define RIVULET_ELEMENT_OF_double(M, F)
#define RIVULET_ELEMENT_OF_int32_t(M, F)
#define RIVULET_ELEMENT_OF_int64_t(M, F)
#define RIVULET_ELEMENT_OF_uint8_t(M, F)
#define RIVULET_ELEMENT_OF_bool(M, F)

namespace rivulet::gpu {

enum class ElementCode : uint8_t {
#define RIVULET_ELEMENT_CODE_OF(F) k##F,
#define RIVULET_ELEMENT_CODE(F, T) RIVULET_ELEMENT_OF_##T(RIVULET_ELEMENT_CODE_OF, F)
  RIVULET_GPU_UNARY_FUNCTIONS(RIVULET_ELEMENT_CODE) RIVULET_GPU_GELU_FUNCTIONS(RIVULET_ELEMENT_CODE)
      RIVULET_GPU_BINARY_FUNCTIONS(RIVULET_ELEMENT_CODE) RIVULET_GPU_GELU_GRAD_FUNCTIONS(RIVULET_ELEMENT_CODE)
          RIVULET_GPU_COMPARISONS(RIVULET_ELEMENT_CODE)
#undef RIVULET_ELEMENT_CODE
#undef RIVULET_ELEMENT_CODE_OF
              kLogicalAnd,
  kLogicalOr,
  kLogicalNot,
  kSelect,       // x != 0 ? y : z
  kClipByValue,  // min(max(x, y), z)
  kTimes,        // x · y, never fused with the next operation
  kCopy,         // x
  kToBfloat16 = kElementToBfloat16,
  kToFloat16 = kElementToFloat16,
};

}  // namespace rivulet::gpu
