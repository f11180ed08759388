#include "federated/tasks/stated_columns.h"

#include <bit>
#include <cstring>

namespace rivulet {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are kept as in memory");

constexpr size_t kValueBytes = 8;

// The numeric columns: all those of client and site are.
template <typename Value>
constexpr bool kIsNumber = std::is_arithmetic_v<Value>;

template <typename Number>
void PutValue(Number number, std::string& to) {
  char bytes[kValueBytes] = {};
  std::memcpy(bytes, &number, sizeof(number));
  to.append(bytes, kValueBytes);
}

template <typename Number>
Number ValueFrom(std::string_view bytes) {
  if constexpr (std::is_same_v<Number, bool>) {
    return bytes[0] != 0;
  } else {
    Number number{};
    std::memcpy(&number, bytes.data(), sizeof(number));
    return number;
  }
}

}  // namespace

std::string PackStated(const TaskResult& result) {
  std::string columns;
  ForEachTaskColumn([&](const auto& column) {
    const auto& member = result.*(column.member);
    using Number = std::remove_cvref_t<decltype(ValueIn(member))>;
    if constexpr (kIsNumber<Number>) {
      const std::string_view name = column.name;
      if (column.by == StatedBy::kCoordinator || !IsKnown(member)) return;
      columns += static_cast<char>(name.size());
      columns += name;
      PutValue(ValueIn(member), columns);
    }
  });
  const auto length = static_cast<uint32_t>(columns.size());
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + columns;
}

bool TakeStated(std::string_view& bytes, TaskResult& result) {
  uint32_t length = 0;
  if (bytes.size() < sizeof(length)) return false;
  std::memcpy(&length, bytes.data(), sizeof(length));
  bytes.remove_prefix(sizeof(length));
  if (bytes.size() < length) return false;
  std::string_view columns = bytes.substr(0, length);
  bytes.remove_prefix(length);
  while (!columns.empty()) {
    const size_t name_bytes = static_cast<uint8_t>(columns[0]);
    if (columns.size() < 1 + name_bytes + kValueBytes) return false;
    const std::string_view name = columns.substr(1, name_bytes), value = columns.substr(1 + name_bytes, kValueBytes);
    columns.remove_prefix(1 + name_bytes + kValueBytes);
    ForEachTaskColumn([&](const auto& column) {
      auto& member = result.*(column.member);
      using Number = std::remove_cvref_t<decltype(ValueIn(member))>;
      if constexpr (kIsNumber<Number>) {
        if (column.by != StatedBy::kCoordinator && name == column.name) ValueIn(member) = ValueFrom<Number>(value);
      }
    });
  }
  return true;
}

}  // namespace rivulet
