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

// Words and keystream of one block fit the fastest cache together.
constexpr size_t kMaskBlockBytes = size_t{16} << 10;
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

StatusOr<MaskAdder> MaskAdder::Create(std::span<std::byte> words, int word_bits) {
  RIVULET_CHECK(word_bits == 32 || word_bits == 64, "words of {} bits", word_bits);
  if (words.size() % static_cast<size_t>(word_bits / 8) != 0) {
    return InvalidArgument("{} bytes are no whole words of {} bits", words.size(), word_bits);
  }
  MaskAdder adder;
  adder.words_ = words;
  adder.word_bits_ = word_bits;
  adder.block_.resize(kMaskBlockBytes);
  return adder;
}

MaskAdder::MaskAdder(MaskAdder&&) noexcept = default;
MaskAdder& MaskAdder::operator=(MaskAdder&&) noexcept = default;

MaskAdder::~MaskAdder() {
  if (!block_.empty()) OPENSSL_cleanse(block_.data(), block_.size());
}

Status MaskAdder::Add(std::span<const uint8_t, kCipherKeyBytes> key, MaskSign sign) {
  if (waiting_ == kMasksAtOnce) RIVULET_RETURN_IF_ERROR(Finish());
  if (waiting_ == masks_.size()) masks_.emplace_back().cipher.reset(EVP_CIPHER_CTX_new());
  Mask& mask = masks_[waiting_];
  RIVULET_RETURN_IF_ERROR(BeginKeystream(mask.cipher.get(), key));
  mask.sign = sign;
  ++waiting_;
  return absl::OkStatus();
}

template <typename Word>
Status MaskAdder::AddTo(std::span<Word> words) {
  constexpr size_t kBlockWords = kMaskBlockBytes / sizeof(Word);
  for (size_t at = 0; at < words.size(); at += kBlockWords) {
    const std::span<Word> block = words.subspan(at, std::min(kBlockWords, words.size() - at));
    for (const Mask& mask : std::span(masks_).first(waiting_)) {
      RIVULET_RETURN_IF_ERROR(
          DrawBytes(mask.cipher.get(), reinterpret_cast<uint8_t*>(block_.data()), block.size_bytes()));
      mask.sign == MaskSign::kAdd ? AddWords(block, block_.data()) : SubtractWords(block, block_.data());
    }
  }
  waiting_ = 0;
  return absl::OkStatus();
}

Status MaskAdder::Finish() {
  if (word_bits_ == 32) {
    return AddTo(std::span(reinterpret_cast<uint32_t*>(words_.data()), words_.size() / sizeof(uint32_t)));
  }
  return AddTo(std::span(reinterpret_cast<uint64_t*>(words_.data()), words_.size() / sizeof(uint64_t)));
}

}  // namespace rivulet::secure
