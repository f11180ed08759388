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
// Results of steps that are wanted later, at once.
inline constexpr int kMostElementSlots = 8;

// Codes that programs know themselves: the value as a type of 16 bits has it.
inline constexpr uint8_t kElementToBfloat16 = 254, kElementToFloat16 = 255;

// What memory holds; arithmetic is in the chain's own type, in which a bool is 0 or 1.
enum class ElementType : uint8_t { kOwn, kBool, kBfloat16, kFloat16 };

// Element i of the chain reads element i / divide % modulo of this tensor; modulo 0: i / divide. So a tensor of the
// result's shape has 1 and 0, a scalar 1 and 1, a bias 1 and its length, a column n and 0.
struct ElementPlace {
  uint32_t divide = 1, modulo = 0;
  ElementType type = ElementType::kOwn;
  bool IsWhole() const { return divide == 1 && modulo == 0; }
  bool operator==(const ElementPlace&) const = default;
};

// Operands are sources by number, and behind kMostElementSources slots. `code` is one of
// engine/kernels/cuda/element_code.h.
struct ElementStepArguments {
  uint8_t code;
  uint8_t operands[3];
  uint8_t slot;  // where the result goes
};

struct ElementChainArguments {
  const std::byte* sources[kMostElementSources];
  size_t source_strides[kMostElementSources];  // from lane to lane, in bytes
  ElementPlace places[kMostElementSources];
  std::byte* targets[kMostElementTargets];
  size_t target_strides[kMostElementTargets];
  uint8_t target_slots[kMostElementTargets];  // where the value lies when all steps are done
  ElementType target_types[kMostElementTargets];
  double parameters[kMostElementSteps];
  ElementStepArguments steps[kMostElementSteps];
  int32_t step_count, target_count;
  int64_t count;
  int32_t lanes;
  const int32_t* ids;  // device memory; null: 0, 1, …
};

}  // namespace rivulet
