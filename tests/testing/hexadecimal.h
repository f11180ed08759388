// Bytes from hexadecimal digits, as standards print test vectors; blanks between them are passed over.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rivulet::testing {

inline std::vector<uint8_t> Bytes(std::string_view hex) {
  std::vector<uint8_t> bytes;
  int digits = 0, value = 0;
  for (const char c : hex) {
    if (c == ' ') continue;
    value = value << 4 | (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    if (++digits % 2 == 0) bytes.push_back(static_cast<uint8_t>(value)), value = 0;
  }
  return bytes;
}

inline std::string HexOf(std::span<const uint8_t> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const uint8_t byte : bytes) hex += kDigits[byte >> 4], hex += kDigits[byte & 15];
  return hex;
}

inline std::span<const uint8_t> BytesOf(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace rivulet::testing
