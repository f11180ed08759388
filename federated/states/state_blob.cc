#include "federated/states/state_blob.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "engine/io/crc32c.h"

namespace rivulet {
namespace {

static_assert(std::endian::native == std::endian::little, "states are kept as they lie in memory");

template <typename T>
void AppendNumber(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Takes numbers and bytes off the front of a view; false at its end.
template <typename T>
bool TakeNumber(std::string_view& from, T& value) {
  if (from.size() < sizeof(value)) return false;
  std::memcpy(&value, from.data(), sizeof(value));
  from.remove_prefix(sizeof(value));
  return true;
}

}  // namespace

std::string WriteState(std::span<const NamedState> state) {
  size_t size = 2 * sizeof(uint32_t);
  for (const NamedState& vector : state) {
    size += sizeof(uint32_t) + vector.name.size() + sizeof(uint64_t) + vector.values.size_bytes();
  }
  std::string out;
  out.reserve(size);
  AppendNumber(out, static_cast<uint32_t>(state.size()));
  for (const NamedState& vector : state) {
    AppendNumber(out, static_cast<uint32_t>(vector.name.size()));
    out += vector.name;
    AppendNumber(out, static_cast<uint64_t>(vector.values.size()));
    out.append(reinterpret_cast<const char*>(vector.values.data()), vector.values.size_bytes());
  }
  AppendNumber(out, Crc32c(out));
  return out;
}

bool IsWholeState(std::string_view blob) {
  if (blob.size() < 2 * sizeof(uint32_t)) return false;
  const std::string_view checked = blob.substr(0, blob.size() - sizeof(uint32_t));
  std::string_view end = blob.substr(checked.size());
  uint32_t crc = 0;
  return TakeNumber(end, crc) && crc == Crc32c(checked);
}

Status ReadState(std::string_view blob, std::span<const NamedState> state) {
  if (!IsWholeState(blob)) return DataLoss("the client's state of {} bytes is damaged", blob.size());
  std::string_view rest = blob.substr(0, blob.size() - sizeof(uint32_t));
  uint32_t vectors = 0;
  bool same = TakeNumber(rest, vectors) && vectors == state.size();
  for (size_t i = 0; same && i < state.size(); ++i) {
    const auto& [name, values] = state[i];
    uint32_t length = 0;
    uint64_t elements = 0;
    same = TakeNumber(rest, length) && rest.substr(0, length) == name;
    if (!same) break;
    rest.remove_prefix(length);
    same = TakeNumber(rest, elements) && elements == values.size() && rest.size() >= values.size_bytes();
    if (!same) break;
    std::memcpy(values.data(), rest.data(), values.size_bytes());
    rest.remove_prefix(values.size_bytes());
  }
  if (same && rest.empty()) return absl::OkStatus();
  return DataLoss("the client's state of {} bytes is not what the plan has clients keep", blob.size());
}

}  // namespace rivulet
