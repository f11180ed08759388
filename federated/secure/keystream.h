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
// many bits as a word has. Masks wait until there are kMasksAtOnce. Then each block of words takes all of them while it
// is in the processor's cache, so long words are not read and written once a mask. Not thread-safe.
//
// Calls: Add* Finish.
class MaskAdder {
 public:
  static constexpr size_t kMasksAtOnce = 64;
  // `words` are little-endian words of `word_bits`, 32 or 64, as messages have them; aligned as words are. They must
  // outlive this.
  static StatusOr<MaskAdder> Create(std::span<std::byte> words, int word_bits);
  MaskAdder(MaskAdder&&) noexcept;
  MaskAdder& operator=(MaskAdder&&) noexcept;
  ~MaskAdder();

  // INTERNAL: OpenSSL makes no cipher; the words are of no use then.
  Status Add(std::span<const uint8_t, kCipherKeyBytes> key, MaskSign sign);
  // All masks are in the words. More may follow.
  Status Finish();

 private:
  struct FreeCipher {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  struct Mask {
    std::unique_ptr<evp_cipher_ctx_st, FreeCipher> cipher;
    MaskSign sign = MaskSign::kAdd;
  };
  MaskAdder() = default;
  template <typename Word>
  Status AddTo(std::span<Word> words);

  std::span<std::byte> words_;
  int word_bits_ = 32;
  std::vector<Mask> masks_;  // the first `waiting_` have a key; the others' ciphers are used again
  size_t waiting_ = 0;
  std::vector<std::byte> block_;  // of a keystream
};

}  // namespace rivulet::secure
