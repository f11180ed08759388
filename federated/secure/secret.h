// Memory of secrets: keys, seeds and shares. Bytes are in OpenSSL's secure heap while it has room (locked in memory,
// excluded from core dumps, between guard pages), else in ordinary memory. Both are wiped when the object is destroyed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/base/status.h"

namespace rivulet::secure {

// Moves and does not copy. Not thread-safe; different objects may be used by different threads.
class SecretBytes {
 public:
  SecretBytes() = default;
  explicit SecretBytes(size_t size);  // zeros
  // From the system's generator through OpenSSL (RAND_priv_bytes). INTERNAL: it gives nothing.
  static StatusOr<SecretBytes> Random(size_t size);
  static SecretBytes CopyOf(std::span<const uint8_t> bytes);

  SecretBytes(SecretBytes&& other) noexcept;
  SecretBytes& operator=(SecretBytes&& other) noexcept;
  ~SecretBytes();
  SecretBytes(const SecretBytes&) = delete;
  SecretBytes& operator=(const SecretBytes&) = delete;

  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::span<uint8_t> span() { return {data_, size_}; }
  std::span<const uint8_t> span() const { return {data_, size_}; }
  std::span<uint8_t> part(size_t at, size_t size) { return span().subspan(at, size); }
  std::span<const uint8_t> part(size_t at, size_t size) const { return span().subspan(at, size); }
  // Whether the bytes lie in the secure heap.
  bool in_secure_heap() const { return in_secure_heap_; }

 private:
  void Free();
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  bool in_secure_heap_ = false;
};

// In constant time. False where the sizes differ.
bool EqualSecrets(std::span<const uint8_t> a, std::span<const uint8_t> b);

// Makes OpenSSL's secure heap, once a process; later calls do nothing. SecretBytes calls it before its first bytes.
// OpenSSL's own private keys of X25519 lie there too.
void EnableSecureHeap();

// Makes this process leave no core dump and refuse debuggers of the same user. INTERNAL: the system refuses.
Status ForbidCoreDumps();

}  // namespace rivulet::secure
