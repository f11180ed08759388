#include "federated/states/state_blob.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "engine/io/crc32c.h"

namespace rivulet {
namespace {

static_assert(std::endian::native == std::endian::little, "states are kept as they are in memory");

template <typename T>
void AppendNumber(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Removes numbers and bytes from the front of a view; returns false at its end.
template <typename T>
bool TakeNumber(std::string_view& from, T& value) {
  if (from.size() < sizeof(value)) return false;
  std::memcpy(&value, from.data(), sizeof(value));
  from.remove_prefix(sizeof(value));
  return true;
}

}  // namespace

std::string WriteState(std::span<const NamedState> state) {
  std::string out;
  AddToState(out, state);
  return out;
}

void AddToState(std::string& blob, std::span<const NamedState> more) {
  uint32_t vectors = 0;
  if (!blob.empty()) {
    std::memcpy(&vectors, blob.data(), sizeof(vectors));
    blob.resize(blob.size() - sizeof(uint32_t));
  } else {
    AppendNumber(blob, vectors);
  }
  vectors += static_cast<uint32_t>(more.size());
  std::memcpy(blob.data(), &vectors, sizeof(vectors));
  size_t size = blob.size() + sizeof(uint32_t);
  for (const NamedState& vector : more) {
    size += sizeof(uint32_t) + vector.name.size() + sizeof(uint64_t) + vector.values.size_bytes();
  }
  blob.reserve(size);
  for (const NamedState& vector : more) {
    AppendNumber(blob, static_cast<uint32_t>(vector.name.size()));
    blob += vector.name;
    AppendNumber(blob, static_cast<uint64_t>(vector.values.size()));
    blob.append(reinterpret_cast<const char*>(vector.values.data()), vector.values.size_bytes());
  }
  AppendNumber(blob, Crc32c(blob));
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
    same = TakeNumber(rest, length) && length == name.size() && rest.starts_with(name);
    if (!same) break;
    rest.remove_prefix(length);
    same = TakeNumber(rest, elements) && elements == values.size() && rest.size() >= values.size_bytes();
    if (!same) break;
    std::memcpy(values.data(), rest.data(), values.size_bytes());
    rest.remove_prefix(values.size_bytes());
  }
  if (same && rest.empty()) return absl::OkStatus();
  return DataLoss("the client's state of {} bytes is not the state of the plan", blob.size());
}

}  // namespace rivulet
