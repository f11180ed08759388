// Serialized client state: named vectors of float32 and a checksum. Little-endian:
//
//   u32 vectors, {u32 length, name, u64 elements, float32 …} …, u32 CRC-32C of all before
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace rivulet {

// One vector, as a view of the caller's memory.
struct NamedState {
  std::string name;
  std::span<float> values;
};

std::string WriteState(std::span<const NamedState> state);
// Appends vectors to the output of WriteState; "" is a state without vectors.
void AddToState(std::string& blob, std::span<const NamedState> more);
// Fills `state`, which must have the same names and sizes in the same order. DATA_LOSS: damaged, or the state of
// another plan; some vectors may have been filled.
Status ReadState(std::string_view blob, std::span<const NamedState> state);
// Returns true if the bytes are a complete, undamaged output of WriteState.
bool IsWholeState(std::string_view blob);

}  // namespace rivulet
