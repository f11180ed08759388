#include "federated/secure/secret.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <mutex>
#include <utility>

#include "engine/base/check.h"

namespace rivulet::secure {
namespace {

// A client of a cohort of a thousand on a complete graph keeps 130 KB; simulations spill into ordinary memory.
// OpenSSL's keys cannot, so half is theirs: 32,000 of them.
constexpr size_t kSecureHeapBytes = size_t{2} << 20;
constexpr size_t kMostSecretBytes = kSecureHeapBytes / 2;
constexpr int kLeastAllocation = 32;

}  // namespace

void EnableSecureHeap() {
  static std::once_flag once;
  // Where memory cannot be locked the heap is made all the same, and where it cannot be made OpenSSL takes the ordinary
  // one: a machine without locked memory still trains.
  std::call_once(once, [] {
    if (CRYPTO_secure_malloc_initialized() == 0) CRYPTO_secure_malloc_init(kSecureHeapBytes, kLeastAllocation);
  });
}

SecretBytes::SecretBytes(size_t size) : size_(size) {
  if (size == 0) return;
  EnableSecureHeap();
  if (CRYPTO_secure_used() + size <= kMostSecretBytes) data_ = static_cast<uint8_t*>(OPENSSL_secure_zalloc(size));
  if (data_ == nullptr) data_ = static_cast<uint8_t*>(OPENSSL_zalloc(size));
  RIVULET_CHECK(data_ != nullptr, "no memory for {} secret bytes", size);
  in_secure_heap_ = CRYPTO_secure_allocated(data_) == 1;
}

StatusOr<SecretBytes> SecretBytes::Random(size_t size) {
  SecretBytes bytes(size);
  if (size > INT_MAX || RAND_priv_bytes(bytes.data(), static_cast<int>(size)) != 1) {
    return Internal("the system gives no {} random bytes, so there can be no secret", size);
  }
  return bytes;
}

SecretBytes SecretBytes::CopyOf(std::span<const uint8_t> bytes) {
  SecretBytes copy(bytes.size());
  std::copy(bytes.begin(), bytes.end(), copy.data());
  return copy;
}

SecretBytes::SecretBytes(SecretBytes&& other) noexcept { *this = std::move(other); }

SecretBytes& SecretBytes::operator=(SecretBytes&& other) noexcept {
  if (this == &other) return *this;
  Free();
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  in_secure_heap_ = std::exchange(other.in_secure_heap_, false);
  return *this;
}

SecretBytes::~SecretBytes() { Free(); }

void SecretBytes::Free() {
  if (data_ == nullptr) return;
  if (in_secure_heap_) {
    OPENSSL_secure_clear_free(data_, size_);
  } else {
    OPENSSL_clear_free(data_, size_);
  }
  data_ = nullptr;
  size_ = 0;
}

bool EqualSecrets(std::span<const uint8_t> a, std::span<const uint8_t> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Status ForbidCoreDumps() {
  const rlimit none{0, 0};
  if (setrlimit(RLIMIT_CORE, &none) == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0) return absl::OkStatus();
  return Internal("cannot forbid core dumps, which would hold keys: {}", std::strerror(errno));
}

}  // namespace rivulet::secure
