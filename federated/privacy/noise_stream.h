// Random words for noise: AES-256 in counter mode under a key of one version and one purpose. A version's elements are
// drawn in blocks of kElementsPerBlock, each from a separate stream. So the noise of an element depends on its position
// alone and not on the number of threads.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "federated/privacy/noise_key.h"

struct evp_cipher_ctx_st;

namespace rivulet::privacy {

// Not thread-safe; moves. What was drawn ahead is wiped with it.
class NoiseStream {
 public:
  // The words of `block` under NoiseKey::Derive(version, purpose). The cipher's counter is the block's number in its
  // first 8 bytes, big-endian, and counts in the other 8. INTERNAL: OpenSSL has no AES-256-CTR.
  static StatusOr<NoiseStream> Create(const NoiseKey& derived, uint64_t block);
  NoiseStream(NoiseStream&&) noexcept;
  NoiseStream& operator=(NoiseStream&&) noexcept;
  ~NoiseStream();

  // 64 uniform bits.
  uint64_t Word() {
    if (used_ == kBuffered) Refill();
    return (*words_)[used_++];
  }
  // The next words, as many as the buffer has (possibly none), to be looked at before they are drawn.
  std::span<const uint64_t> ahead() const { return std::span(*words_).subspan(used_); }
  // Draws the first `words` of ahead().
  void Skip(size_t words) { used_ += words; }
  // 1 uniform bit.
  bool Bit() {
    if (bits_left_ == 0) bits_ = Word(), bits_left_ = 64;
    --bits_left_;
    const bool bit = (bits_ & 1) != 0;
    bits_ >>= 1;
    return bit;
  }
  // Uniform on 0 .. bound - 1 without bias (Lemire 2019); bound >= 1.
  uint64_t Below(uint64_t bound) {
    unsigned __int128 product = static_cast<unsigned __int128>(Word()) * bound;
    if (static_cast<uint64_t>(product) < bound) {
      const uint64_t threshold = -bound % bound;
      while (static_cast<uint64_t>(product) < threshold) product = static_cast<unsigned __int128>(Word()) * bound;
    }
    return static_cast<uint64_t>(product >> 64);
  }

 private:
  static constexpr size_t kBuffered = 512;
  struct FreeCipher {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  NoiseStream() = default;
  void Refill();

  std::unique_ptr<evp_cipher_ctx_st, FreeCipher> cipher_;
  std::unique_ptr<std::array<uint64_t, kBuffered>> words_;
  size_t used_ = kBuffered;
  uint64_t bits_ = 0;
  int bits_left_ = 0;
};

}  // namespace rivulet::privacy
