// Serialized client state: named vectors of float32 and a checksum. Little-endian:
//
//   u32 vectors, {u32 length, name, u64 elements, float32 …} …, u32 CRC-32C of all before
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace rivulet {

// One of them, where it lies.
struct NamedState {
  std::string name;
  std::span<float> values;
};

std::string WriteState(std::span<const NamedState> state);
// Puts more behind what WriteState made; "" is a state without any.
void AddToState(std::string& blob, std::span<const NamedState> more);
// Fills `state` from the same names and sizes in the same order. DATA_LOSS: damaged, or the state of another plan; some
// may be filled then.
Status ReadState(std::string_view blob, std::span<const NamedState> state);
// Whether the bytes are as WriteState made them.
bool IsWholeState(std::string_view blob);

}  // namespace rivulet
