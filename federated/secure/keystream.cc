#include "federated/secure/keystream.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <bit>

#include "certificates/openssl.h"
#include "engine/base/check.h"
#include "federated/aggregation/word_runs.h"

namespace rivulet::secure {
namespace {

constexpr size_t kMaskBlockBytes = size_t{64} << 10;
constexpr size_t kWordsDrawnAhead = 1024;
constexpr std::array<uint8_t, 16> kFirstCounter{};

// Words of the machine are taken for the messages' little-endian ones in place.
static_assert(std::endian::native == std::endian::little, "masks are little-endian words");

const std::array<uint8_t, kMaskBlockBytes>& ZeroBlock() {
  static constexpr std::array<uint8_t, kMaskBlockBytes> kZeros{};
  return kZeros;
}

Status BeginKeystream(EVP_CIPHER_CTX* cipher, std::span<const uint8_t, kCipherKeyBytes> key) {
  const bool begun =
      cipher != nullptr &&
      EVP_EncryptInit_ex(cipher, EVP_CIPHER_CTX_get0_cipher(cipher) == nullptr ? EVP_aes_256_ctr() : nullptr, nullptr,
                         key.data(), kFirstCounter.data()) == 1;
  return begun ? absl::OkStatus() : OpenSslError("begin AES-256-CTR");
}

Status DrawBytes(EVP_CIPHER_CTX* cipher, uint8_t* to, size_t bytes) {
  int written = 0;
  const bool drawn = EVP_EncryptUpdate(cipher, to, &written, ZeroBlock().data(), static_cast<int>(bytes)) == 1 &&
                     written == static_cast<int>(bytes);
  return drawn ? absl::OkStatus() : OpenSslError("draw a keystream");
}

}  // namespace

void Keystream::FreeCipher::operator()(evp_cipher_ctx_st* context) const { EVP_CIPHER_CTX_free(context); }

StatusOr<Keystream> Keystream::Create(std::span<const uint8_t, kCipherKeyBytes> key) {
  Keystream stream;
  stream.cipher_.reset(EVP_CIPHER_CTX_new());
  RIVULET_RETURN_IF_ERROR(BeginKeystream(stream.cipher_.get(), key));
  stream.words_.resize(kWordsDrawnAhead);
  stream.used_ = kWordsDrawnAhead;
  return stream;
}

Keystream::Keystream(Keystream&&) noexcept = default;
Keystream& Keystream::operator=(Keystream&&) noexcept = default;
Keystream::~Keystream() { OPENSSL_cleanse(words_.data(), words_.size() * sizeof(uint32_t)); }

uint32_t Keystream::Word() {
  if (used_ == words_.size()) {
    const Status drawn =
        DrawBytes(cipher_.get(), reinterpret_cast<uint8_t*>(words_.data()), words_.size() * sizeof(uint32_t));
    RIVULET_CHECK(drawn.ok(), "{}", Message(drawn));
    used_ = 0;
  }
  return words_[used_++];
}

void MaskAdder::FreeCipher::operator()(evp_cipher_ctx_st* context) const { EVP_CIPHER_CTX_free(context); }

StatusOr<MaskAdder> MaskAdder::Create() {
  MaskAdder adder;
  adder.cipher_.reset(EVP_CIPHER_CTX_new());
  if (adder.cipher_ == nullptr) return OpenSslError("make a cipher");
  adder.block_.resize(kMaskBlockBytes);
  return adder;
}

MaskAdder::MaskAdder(MaskAdder&&) noexcept = default;
MaskAdder& MaskAdder::operator=(MaskAdder&&) noexcept = default;

MaskAdder::~MaskAdder() {
  if (!block_.empty()) OPENSSL_cleanse(block_.data(), block_.size());
}

template <typename Word>
Status MaskAdder::ApplyTo(std::span<const uint8_t, kCipherKeyBytes> key, MaskSign sign, std::span<Word> words) {
  constexpr size_t kBlockWords = kMaskBlockBytes / sizeof(Word);
  RIVULET_RETURN_IF_ERROR(BeginKeystream(cipher_.get(), key));
  for (size_t at = 0; at < words.size(); at += kBlockWords) {
    const size_t count = std::min(kBlockWords, words.size() - at);
    RIVULET_RETURN_IF_ERROR(DrawBytes(cipher_.get(), reinterpret_cast<uint8_t*>(block_.data()), count * sizeof(Word)));
    const std::span<Word> masked = words.subspan(at, count);
    sign == MaskSign::kAdd ? AddWords(masked, block_.data()) : SubtractWords(masked, block_.data());
  }
  return absl::OkStatus();
}

Status MaskAdder::Apply(std::span<const uint8_t, kCipherKeyBytes> key, MaskSign sign, std::span<uint32_t> words) {
  return ApplyTo(key, sign, words);
}

Status MaskAdder::Apply(std::span<const uint8_t, kCipherKeyBytes> key, MaskSign sign, std::span<uint64_t> words) {
  return ApplyTo(key, sign, words);
}

Status MaskAdder::Apply(std::span<const uint8_t, kCipherKeyBytes> key, MaskSign sign, std::span<std::byte> words,
                        int word_bits) {
  if (word_bits == 32) {
    return Apply(key, sign, std::span(reinterpret_cast<uint32_t*>(words.data()), words.size() / sizeof(uint32_t)));
  }
  return Apply(key, sign, std::span(reinterpret_cast<uint64_t*>(words.data()), words.size() / sizeof(uint64_t)));
}

}  // namespace rivulet::secure
