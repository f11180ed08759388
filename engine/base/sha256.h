// SHA-256 (FIPS 180-4) by OpenSSL.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace rivulet {

struct Digest {
  std::array<uint8_t, 32> bytes{};
  bool operator==(const Digest&) const = default;
  auto operator<=>(const Digest&) const = default;
  std::string Hex() const;  // 64 lower-case hexadecimal digits
  // INVALID_ARGUMENT unless `hex` is 64 hexadecimal digits.
  static StatusOr<Digest> FromHex(std::string_view hex);
  // INVALID_ARGUMENT unless `raw` is 32 bytes.
  static StatusOr<Digest> FromBytes(std::string_view raw);
  std::string_view AsBytes() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
};

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  Sha256& Update(std::span<const std::byte> bytes);
  Sha256& Update(std::string_view bytes) { return Update(std::as_bytes(std::span(bytes.data(), bytes.size()))); }
  // Little-endian, as all our formats.
  Sha256& UpdateU8(uint8_t v);
  Sha256& UpdateU32(uint32_t v);
  Sha256& UpdateU64(uint64_t v);
  Digest Finish() &&;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

inline Digest Sha256Of(std::string_view bytes) { return std::move(Sha256().Update(bytes)).Finish(); }

}  // namespace rivulet
