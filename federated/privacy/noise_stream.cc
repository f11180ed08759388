#include "federated/privacy/noise_stream.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <bit>

#include "engine/base/check.h"

namespace rivulet::privacy {

void NoiseStream::FreeCipher::operator()(evp_cipher_ctx_st* context) const { EVP_CIPHER_CTX_free(context); }

StatusOr<NoiseStream> NoiseStream::Create(const NoiseKey& derived, uint64_t block) {
  std::array<uint8_t, 16> counter{};
  for (size_t byte = 0; byte < 8; ++byte) counter[byte] = static_cast<uint8_t>(block >> (56 - 8 * byte));
  NoiseStream stream;
  stream.cipher_.reset(EVP_CIPHER_CTX_new());
  stream.words_ = std::make_unique<std::array<uint64_t, kBuffered>>();
  if (!stream.cipher_ ||
      EVP_EncryptInit_ex(stream.cipher_.get(), EVP_aes_256_ctr(), nullptr, derived.data(), counter.data()) != 1) {
    return Internal("OpenSSL has no AES-256 in counter mode, which noise is drawn by");
  }
  return stream;
}

NoiseStream::NoiseStream(NoiseStream&&) noexcept = default;
NoiseStream& NoiseStream::operator=(NoiseStream&&) noexcept = default;

NoiseStream::~NoiseStream() {
  if (words_) OPENSSL_cleanse(words_->data(), sizeof(*words_));
}

void NoiseStream::Refill() {
  static constexpr std::array<uint8_t, kBuffered * sizeof(uint64_t)> kZeros{};
  int written = 0;
  const int done = EVP_EncryptUpdate(cipher_.get(), reinterpret_cast<uint8_t*>(words_->data()), &written, kZeros.data(),
                                     static_cast<int>(kZeros.size()));
  RIVULET_CHECK(done == 1 && written == static_cast<int>(kZeros.size()), "AES-256-CTR made {} bytes", written);
  if constexpr (std::endian::native == std::endian::big) {
    for (uint64_t& word : *words_) word = __builtin_bswap64(word);
  }
  used_ = 0;
}

}  // namespace rivulet::privacy
