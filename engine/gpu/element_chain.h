// Arguments of the kernel that runs a chain of elementwise functions (engine/program/gpu_elements.h). Intermediate
// values never leave the block. Its device code is engine/kernels/cuda/element_chain.cu.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rivulet {

inline constexpr std::string_view kElementChainFloat = "element_chain_float";
inline constexpr std::string_view kElementChainDouble = "element_chain_double";

inline constexpr int kMostElementSources = 12, kMostElementSteps = 24, kMostElementTargets = 4;
// The maximum number of step results that are kept for later steps at once.
inline constexpr int kMostElementSlots = 8;

// Codes with a fixed meaning for programs: round the value to a 16-bit type.
inline constexpr uint8_t kElementToBfloat16 = 254, kElementToFloat16 = 255;

// Type in memory. Arithmetic uses the chain's own type, in which a bool is 0 or 1.
enum class ElementType : uint8_t { kOwn, kBool, kBfloat16, kFloat16 };

// The index mapping of a source: element i of the chain reads its element i / divide % modulo, or i / divide if modulo
// is 0. So a tensor of the result's shape has 1 and 0, a scalar 1 and 1, a bias 1 and its length, a column n and 0.
struct ElementPlace {
  uint32_t divide = 1, modulo = 0;
  ElementType type = ElementType::kOwn;
  bool IsWhole() const { return divide == 1 && modulo == 0; }
  bool operator==(const ElementPlace&) const = default;
};

// One step. Operands below kMostElementSources are sources; the others are slots. `code` is one of
// engine/kernels/cuda/element_code.h.
struct ElementStepArguments {
  uint8_t code;
  uint8_t operands[3];
  uint8_t slot;  // receives the result
};

struct ElementChainArguments {
  const std::byte* sources[kMostElementSources];
  size_t source_strides[kMostElementSources];  // bytes from lane to lane
  ElementPlace places[kMostElementSources];
  std::byte* targets[kMostElementTargets];
  size_t target_strides[kMostElementTargets];
  uint8_t target_slots[kMostElementTargets];  // slot with the value after all steps
  ElementType target_types[kMostElementTargets];
  double parameters[kMostElementSteps];
  ElementStepArguments steps[kMostElementSteps];
  int32_t step_count, target_count;
  int64_t count;
  int32_t lanes;
  const int32_t* ids;  // in device memory; null: 0, 1, …
};

}  // namespace rivulet
