// A run's noise key: 256 secret bits that determine all noise and all draws of a private run. Its holder can remove the
// noise. So it is never served, exported or logged, only its owner can read its file, and its bytes are wiped from
// memory with the object.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "engine/base/file_system.h"

namespace rivulet::privacy {

// What a stream of bits is for. Numbers are part of the format: the same key gives the same bits in every version of
// the program.
enum class NoisePurpose : uint32_t {
  kSum = 1,     // noise on the summed update
  kClip = 2,    // noise on the count that adaptive clipping asks for
  kCohort = 3,  // who is drawn
  kLocal = 4,   // noise of one client on its own update
  kAudit = 5,   // canaries
};

// Moves and does not copy. Thread-safe once made.
class NoiseKey {
 public:
  static constexpr size_t kBytes = 32;
  using Bytes = std::array<uint8_t, kBytes>;

  // From the system's generator through OpenSSL (RAND_priv_bytes). INTERNAL: it gives nothing.
  static StatusOr<NoiseKey> Generate();
  // Of known bytes, which stay the caller's to wipe: for tests and for seeded simulations.
  static NoiseKey FromBytes(std::span<const uint8_t, kBytes> bytes);

  // Makes a key and writes it to `path` with the mode 0600; file and folder are synced when it returns, so a run may
  // begin. What a crash leaves is "PATH.part", which the next call replaces. ALREADY_EXISTS: something is at `path`; a
  // key is never replaced, since versions were made with it. Others: as FileSystem.
  static StatusOr<NoiseKey> Create(FileSystem& files, const std::string& path);
  // The second half of Create, for a key that Generate made. Errors as Create.
  Status Write(FileSystem& files, const std::string& path) const;
  // NOT_FOUND: no such file. FAILED_PRECONDITION: others than its owner may read it. DATA_LOSS: it is not what Create
  // writes. No message shows any of its bytes.
  static StatusOr<NoiseKey> Read(FileSystem& files, const std::string& path);

  NoiseKey(NoiseKey&& other) noexcept;
  NoiseKey& operator=(NoiseKey&& other) noexcept;
  ~NoiseKey();
  NoiseKey(const NoiseKey&) = delete;
  NoiseKey& operator=(const NoiseKey&) = delete;

  // HKDF-SHA256 (RFC 5869) of the key without salt; info is "rivulet noise 1", the version as 8 and the purpose as 4
  // bytes, little-endian. The key of an AES-256 that belongs to this version and purpose alone.
  StatusOr<NoiseKey> Derive(uint64_t version, NoisePurpose purpose) const;

  // For the cipher alone.
  const uint8_t* data() const { return bytes_.data(); }

 private:
  NoiseKey() = default;
  Bytes bytes_{};
};

}  // namespace rivulet::privacy
