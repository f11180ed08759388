#include "engine/base/fingerprint64.h"

#include <bit>
#include <cstring>
#include <utility>

namespace rivulet {
namespace {

// Constants and mixing steps of farmhashna.
constexpr uint64_t k0 = 0xc3a5c85c97cb3127, k1 = 0xb492b66fbe98f273, k2 = 0x9ae16a3b2f90404f;
using Pair = std::pair<uint64_t, uint64_t>;

uint64_t Fetch(const char* s) {
  uint64_t value;
  std::memcpy(&value, s, sizeof value);
  return value;
}
uint64_t Fetch32(const char* s) {
  uint32_t value;
  std::memcpy(&value, s, sizeof value);
  return value;
}
uint64_t Turn(uint64_t value, int bits) { return std::rotr(value, bits); }
uint64_t ShiftMix(uint64_t value) { return value ^ (value >> 47); }

uint64_t Mix16(uint64_t u, uint64_t v, uint64_t mul) {
  const uint64_t a = ShiftMix((u ^ v) * mul);
  return ShiftMix((v ^ a) * mul) * mul;
}

uint64_t UpTo16(const char* s, size_t length) {
  const uint64_t mul = k2 + length * 2;
  if (length >= 8) {
    const uint64_t a = Fetch(s) + k2, b = Fetch(s + length - 8);
    return Mix16(Turn(b, 37) * mul + a, (Turn(a, 25) + b) * mul, mul);
  }
  if (length >= 4) return Mix16(length + (Fetch32(s) << 3), Fetch32(s + length - 4), mul);
  if (length == 0) return k2;
  const auto byte = [&](size_t i) { return uint32_t{static_cast<uint8_t>(s[i])}; };
  const uint32_t y = byte(0) + (byte(length >> 1) << 8), z = static_cast<uint32_t>(length) + (byte(length - 1) << 2);
  return ShiftMix(y * k2 ^ z * k0) * k2;
}

uint64_t UpTo32(const char* s, size_t length) {
  const uint64_t mul = k2 + length * 2;
  const uint64_t a = Fetch(s) * k1, b = Fetch(s + 8), c = Fetch(s + length - 8) * mul, d = Fetch(s + length - 16) * k2;
  return Mix16(Turn(a + b, 43) + Turn(c, 30) + d, a + Turn(b + k2, 18) + c, mul);
}

uint64_t UpTo64(const char* s, size_t length) {
  const uint64_t mul = k2 + length * 2;
  const uint64_t a = Fetch(s) * k2, b = Fetch(s + 8), c = Fetch(s + length - 8) * mul, d = Fetch(s + length - 16) * k2;
  const uint64_t y = Turn(a + b, 43) + Turn(c, 30) + d, z = Mix16(y, a + Turn(b + k2, 18) + c, mul);
  const uint64_t e = Fetch(s + 16) * mul, f = Fetch(s + 24);
  const uint64_t g = (y + Fetch(s + length - 32)) * mul, h = (z + Fetch(s + length - 24)) * mul;
  return Mix16(Turn(e + f, 43) + Turn(g, 30) + h, e + Turn(f + a, 18) + g, mul);
}

Pair Weak32(const char* s, uint64_t a, uint64_t b) {
  const uint64_t w = Fetch(s), x = Fetch(s + 8), y = Fetch(s + 16), z = Fetch(s + 24);
  a += w;
  b = Turn(b + a + z, 21);
  const uint64_t c = a;
  a += x + y;
  b += Turn(a, 44);
  return {a + z, b + c};
}

}  // namespace

uint64_t Fingerprint64(std::string_view text) {
  const char* s = text.data();
  const size_t length = text.size();
  if (length <= 16) return UpTo16(s, length);
  if (length <= 32) return UpTo32(s, length);
  if (length <= 64) return UpTo64(s, length);
  constexpr uint64_t kSeed = 81;
  uint64_t x = kSeed * k2 + Fetch(s), y = kSeed * k1 + 113, z = ShiftMix(y * k2 + 113) * k2;
  Pair v, w;
  const char* const end = s + (length - 1) / 64 * 64;
  const char* const last = end + ((length - 1) & 63) - 63;
  const auto round = [&](uint64_t mul, uint64_t factor) {
    x = Turn(x + y + v.first + Fetch(s + 8), 37) * mul;
    y = Turn(y + v.second + Fetch(s + 48), 42) * mul;
    x ^= w.second * factor;
    y += v.first * factor + Fetch(s + 40);
    z = Turn(z + w.first, 33) * mul;
    v = Weak32(s, v.second * mul, x + w.first);
    w = Weak32(s + 32, z + w.second, y + Fetch(s + 16));
    std::swap(z, x);
  };
  for (; s != end; s += 64) round(k1, 1);
  const uint64_t mul = k1 + ((z & 0xff) << 1);
  s = last;
  w.first += (length - 1) & 63;
  v.first += w.first;
  w.first += v.first;
  round(mul, 9);
  return Mix16(Mix16(v.first, w.first, mul) + ShiftMix(y) * k0 + z, Mix16(v.second, w.second, mul) + x, mul);
}

}  // namespace rivulet
