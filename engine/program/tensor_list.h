// Tensor lists, as TensorFlow's TensorList ops and the gradients of loops use them: values of type kVariant.
//
// A list is a value: an op that changes one gives a new list and leaves the old one as it was. A tensor contains an
// 8-byte handle, the address of a TensorList in the run's store; 0 is the empty list. Handles are copied freely without
// counting references: all lists end with their run.
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

// One version. Its fields are the store's business.
struct TensorList {
  struct Buffer;
  Buffer* buffer = nullptr;
  uint32_t version = 0;
  uint32_t length = 0;
};

// The memory of one running instance's lists, and the only way to read and write them. It grows in the first run and is
// used again in later ones, so a program that makes the same lists again allocates nothing. Not thread-safe.
class TensorListStore {
 public:
  // RESOURCE_EXHAUSTED once the lists of one run take more than `max_bytes`.
  explicit TensorListStore(size_t max_bytes = size_t{4} << 30) : max_bytes_(max_bytes) {}

  // Forgets all lists; handles of before mean nothing any more.
  void Reset() { chunk_ = used_ = in_use_ = 0; }
  size_t bytes_in_use() const { return in_use_; }
  size_t bytes_held() const { return held_; }

  // A list of `length` elements that are not set yet. At most `max_length` elements may ever be in it.
  // INVALID_ARGUMENT: a length that is negative or beyond that.
  StatusOr<const TensorList*> Create(DType dtype, int64_t length,
                                     int64_t max_length = std::numeric_limits<uint32_t>::max());

  static int64_t Length(const TensorList* list) { return list == nullptr ? 0 : list->length; }
  // kInvalid for the empty list of handle 0.
  static DType ElementType(const TensorList* list);
  // Of every element that is set; 0 as long as none ever was.
  static size_t ElementBytes(const TensorList* list);
  // The element's bytes; null where it was never set. `index` is within the list.
  static const std::byte* Get(const TensorList* list, int64_t index);

  // The list with element `index` (below its length) replaced by `bytes` of memory that the caller fills at once:
  // `*element`. INVALID_ARGUMENT: elements of another size or type were set before.
  StatusOr<const TensorList*> Set(const TensorList* list, int64_t index, DType dtype, size_t bytes,
                                  std::byte** element);
  // The list with one more element, likewise. INVALID_ARGUMENT also: beyond the list's max_length.
  StatusOr<const TensorList*> Push(const TensorList* list, DType dtype, size_t bytes, std::byte** element);
  // The first `length` elements, and unset ones behind them where the list is shorter.
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
  // A list equal to `list` that is the newest version of its buffer, which has room for `capacity` elements.
  StatusOr<TensorList> Writable(const TensorList* list, uint32_t capacity);

  size_t max_bytes_;
  std::vector<AlignedBuffer> chunks_;
  size_t chunk_ = 0, used_ = 0;  // the chunk being filled, and how far
  size_t in_use_ = 0, held_ = 0;
};

}  // namespace rivulet
