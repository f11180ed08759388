// CRC-32C (Castagnoli polynomial, RFC 3720 appendix B.4), as used in TFRecord frames. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace rivulet {

// Returns the CRC of the earlier bytes, whose CRC is `crc` (0 at the start), followed by `bytes`.
uint32_t ExtendCrc32c(uint32_t crc, std::span<const std::byte> bytes);
inline uint32_t Crc32c(std::span<const std::byte> bytes) { return ExtendCrc32c(0, bytes); }
inline uint32_t Crc32c(std::string_view bytes) { return Crc32c(std::as_bytes(std::span(bytes.data(), bytes.size()))); }

// Masks a CRC for TFRecord: rotated right by 15 bits plus a constant, because the CRC of bytes that contain their own
// CRC is not meaningful.
inline uint32_t MaskCrc(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u; }

namespace internal {
// The implementations behind ExtendCrc32c, for tests and benchmarks.
uint32_t ExtendCrc32cPortable(uint32_t crc, std::span<const std::byte> bytes);
bool HasCrc32cInstruction();
uint32_t ExtendCrc32cHardware(uint32_t crc, std::span<const std::byte> bytes);  // only if HasCrc32cInstruction()
bool HasWideProducts();
uint32_t ExtendCrc32cWide(uint32_t crc, std::span<const std::byte> bytes);  // only if HasWideProducts()
}  // namespace internal

}  // namespace rivulet
