// AES-256 in counter mode (SP 800-38A) as a source of words, and as masks that are added to words.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "federated/secure/secret.h"

struct evp_cipher_ctx_st;

namespace rivulet::secure {

inline constexpr size_t kCipherKeyBytes = 32;

// The keystream of one key from the counter 0, as little-endian words of 32 bits. Not thread-safe.
class Keystream {
 public:
  static StatusOr<Keystream> Create(std::span<const uint8_t, kCipherKeyBytes> key);
  Keystream(Keystream&&) noexcept;
  Keystream& operator=(Keystream&&) noexcept;
  ~Keystream();
  uint32_t Word();

 private:
  struct FreeCipher {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  Keystream() = default;
  std::unique_ptr<evp_cipher_ctx_st, FreeCipher> cipher_;
  std::vector<uint32_t> words_;
  size_t used_ = 0;
};

enum class MaskSign { kAdd, kSubtract };

// Adds masks to words, or takes them away: word i of a mask is word i of the keystream of its key, little-endian, of as
// many bits as a word has. A mask is made in blocks of 64 KiB, which stay in the processor's cache. Not thread-safe.
class MaskAdder {
 public:
  static StatusOr<MaskAdder> Create();
  MaskAdder(MaskAdder&&) noexcept;
  MaskAdder& operator=(MaskAdder&&) noexcept;
  ~MaskAdder();

  Status Apply(std::span<const uint8_t, kCipherKeyBytes> key, MaskSign sign, std::span<uint32_t> words);
  Status Apply(std::span<const uint8_t, kCipherKeyBytes> key, MaskSign sign, std::span<uint64_t> words);
  // Of little-endian words of `word_bits`, 32 or 64, as messages have them; aligned as words are.
  Status Apply(std::span<const uint8_t, kCipherKeyBytes> key, MaskSign sign, std::span<std::byte> words, int word_bits);

 private:
  struct FreeCipher {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  MaskAdder() = default;
  template <typename Word>
  Status ApplyTo(std::span<const uint8_t, kCipherKeyBytes> key, MaskSign sign, std::span<Word> words);
  std::unique_ptr<evp_cipher_ctx_st, FreeCipher> cipher_;
  std::vector<std::byte> block_;
};

}  // namespace rivulet::secure
