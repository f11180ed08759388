#include "engine/base/sha256.h"

#include <openssl/evp.h>

#include <bit>
#include <new>

#include "engine/base/check.h"

namespace rivulet {
namespace {

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Every OpenSSL has SHA-256: what it cannot give, it had no memory for.
const EVP_MD* FetchSha256() {
  const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  if (algorithm == nullptr) throw std::bad_alloc();
  return algorithm;
}

}  // namespace

std::string Digest::Hex() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (uint8_t byte : bytes) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

StatusOr<Digest> Digest::FromHex(std::string_view hex) {
  Digest digest;
  if (hex.size() != 2 * digest.bytes.size())
    return InvalidArgument("a digest has 64 hexadecimal digits, not {}", hex.size());
  for (size_t i = 0; i < digest.bytes.size(); ++i) {
    const int high = HexValue(hex[2 * i]), low = HexValue(hex[2 * i + 1]);
    if (high < 0 || low < 0) return InvalidArgument("a digest has hexadecimal digits only, not '{}'", hex);
    digest.bytes[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return digest;
}

StatusOr<Digest> Digest::FromBytes(std::string_view raw) {
  Digest digest;
  if (raw.size() != digest.bytes.size()) return InvalidArgument("a digest has 32 bytes, not {}", raw.size());
  std::copy(raw.begin(), raw.end(), digest.bytes.begin());
  return digest;
}

struct Sha256::State {
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context{EVP_MD_CTX_new()};
};

// Looked up once: EVP_sha256() is searched for by name, under a lock, at each use.
Sha256::Sha256() : state_(std::make_unique<State>()) {
  static const EVP_MD* const algorithm = FetchSha256();
  if (state_->context == nullptr || EVP_DigestInit_ex(state_->context.get(), algorithm, nullptr) != 1)
    throw std::bad_alloc();
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

Sha256& Sha256::Update(std::span<const std::byte> bytes) {
  RIVULET_CHECK(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()) == 1);
  return *this;
}

Sha256& Sha256::UpdateU8(uint8_t v) { return Update(std::as_bytes(std::span(&v, 1))); }

Sha256& Sha256::UpdateU32(uint32_t v) {
  std::array<uint8_t, 4> little;
  for (size_t i = 0; i < little.size(); ++i) little[i] = static_cast<uint8_t>(v >> (8 * i));
  return Update(std::as_bytes(std::span(little)));
}

Sha256& Sha256::UpdateU64(uint64_t v) {
  std::array<uint8_t, 8> little;
  for (size_t i = 0; i < little.size(); ++i) little[i] = static_cast<uint8_t>(v >> (8 * i));
  return Update(std::as_bytes(std::span(little)));
}

Digest Sha256::Finish() && {
  Digest digest;
  unsigned length = 0;
  RIVULET_CHECK(EVP_DigestFinal_ex(state_->context.get(), digest.bytes.data(), &length) == 1 &&
                length == digest.bytes.size());
  return digest;
}

}  // namespace rivulet
