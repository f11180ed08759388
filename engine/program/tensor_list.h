// Tensor lists for TensorFlow's TensorList ops and the gradients of loops: values of type kVariant.
//
// A list is a value: an op that changes one returns a new list and leaves the old one unchanged. A tensor contains an
// 8-byte handle, the address of a TensorList in the run's store; 0 is the empty list. Handles are copied freely without
// reference counts: all lists end with their run.
//
// The versions of one list share a buffer. The newest is changed in place. Each slot has its element, the version since
// which it has it, and its earlier elements for older versions. So a chain of versions, as loops create, costs one copy
// of each element written, and a kept handle costs nothing. A change to an older version copies the table of slots
// first; the elements, which never change, are shared.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "engine/base/status.h"
#include "engine/tensor/dtype.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

// One version. Its fields are private to the store.
struct TensorList {
  struct Buffer;
  Buffer* buffer = nullptr;
  uint32_t version = 0;
  uint32_t length = 0;
};

// The memory of one running instance's lists, with all operations on them. It grows in the first run and is reused in
// later ones, so a program that makes the same lists again allocates nothing. Not thread-safe.
class TensorListStore {
 public:
  // RESOURCE_EXHAUSTED if the lists of one run take more than `max_bytes`.
  explicit TensorListStore(size_t max_bytes = size_t{4} << 30) : max_bytes_(max_bytes) {}

  // Drops all lists; their handles become invalid.
  void Reset() { chunk_ = used_ = in_use_ = 0; }
  size_t bytes_in_use() const { return in_use_; }
  size_t bytes_held() const { return held_; }

  // Creates a list of `length` unset elements, which may grow to `max_length`. INVALID_ARGUMENT: a length that is
  // negative or above that.
  StatusOr<const TensorList*> Create(DType dtype, int64_t length,
                                     int64_t max_length = std::numeric_limits<uint32_t>::max());

  static int64_t Length(const TensorList* list) { return list == nullptr ? 0 : list->length; }
  // kInvalid for the empty list with handle 0.
  static DType ElementType(const TensorList* list);
  // Size of every set element; 0 if none was ever set.
  static size_t ElementBytes(const TensorList* list);
  // The element's bytes; null if it was never set. `index` must be below the length.
  static const std::byte* Get(const TensorList* list, int64_t index);

  // Returns the list with element `index` (below its length) replaced by `bytes` of memory at `*element`, which the
  // caller must fill at once. INVALID_ARGUMENT: earlier elements have another size or type.
  StatusOr<const TensorList*> Set(const TensorList* list, int64_t index, DType dtype, size_t bytes,
                                  std::byte** element);
  // Returns the list with one more element, likewise. INVALID_ARGUMENT also: beyond the list's max_length.
  StatusOr<const TensorList*> Push(const TensorList* list, DType dtype, size_t bytes, std::byte** element);
  // Returns the first `length` elements, followed by unset ones if the list is shorter.
  StatusOr<const TensorList*> Resize(const TensorList* list, int64_t length);

  static const TensorList* FromHandle(const std::byte* handle) {
    const TensorList* list;
    std::memcpy(&list, handle, sizeof list);
    return list;
  }
  static void ToHandle(const TensorList* list, std::byte* handle) { std::memcpy(handle, &list, sizeof list); }

 private:
  StatusOr<std::byte*> Allocate(size_t bytes);
  StatusOr<const TensorList*> NewVersion(TensorList::Buffer* buffer, uint32_t version, uint32_t length);
  // A list equal to `list` that is the newest version of its buffer, with room for `capacity` elements.
  StatusOr<TensorList> Writable(const TensorList* list, uint32_t capacity);

  size_t max_bytes_;
  std::vector<AlignedBuffer> chunks_;
  size_t chunk_ = 0, used_ = 0;  // the chunk being filled, and its used bytes
  size_t in_use_ = 0, held_ = 0;
};

}  // namespace rivulet
