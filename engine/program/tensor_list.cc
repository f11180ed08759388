#include "engine/program/tensor_list.h"

#include <algorithm>
#include <new>

namespace rivulet {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kFirstChunk = size_t{64} << 10;
constexpr size_t kLargestDoubling = size_t{64} << 20;

struct Slot {
  std::byte* element = nullptr;  // null: not set
  Slot* older = nullptr;         // its contents for versions before `since`
  uint32_t since = 0;
};

}  // namespace

struct TensorList::Buffer {
  Slot* slots = nullptr;
  uint32_t capacity = 0;
  uint32_t newest = 0;  // version
  uint32_t max_length = 0;
  DType dtype = DType::kInvalid;
  size_t element_bytes = 0;
  bool has_elements = false;
};

namespace {

const Slot* SlotOf(const TensorList& list, uint32_t index) {
  const Slot* slot = index < list.buffer->capacity ? &list.buffer->slots[index] : nullptr;
  while (slot != nullptr && slot->since > list.version) slot = slot->older;
  return slot;
}

// Whether an element of this version was ever set.
bool HasElements(const TensorList& list) {
  for (uint32_t i = 0; i < list.length; ++i)
    if (const Slot* slot = SlotOf(list, i); slot != nullptr && slot->element != nullptr) return true;
  return false;
}

}  // namespace

DType TensorListStore::ElementType(const TensorList* list) {
  return list == nullptr ? DType::kInvalid : list->buffer->dtype;
}

size_t TensorListStore::ElementBytes(const TensorList* list) {
  return list == nullptr ? 0 : list->buffer->element_bytes;
}

const std::byte* TensorListStore::Get(const TensorList* list, int64_t index) {
  const Slot* slot = list == nullptr ? nullptr : SlotOf(*list, static_cast<uint32_t>(index));
  return slot == nullptr ? nullptr : slot->element;
}

// Memory is only taken from the end, and freed all at once with the run, because its
// objects have no destructors. The rest of a chunk that is too small is skipped for
// this run; searching it would make each element of a long loop search all chunks. A
// program makes the same lists in every run, so later runs need no more memory.
StatusOr<std::byte*> TensorListStore::Allocate(size_t bytes) {
  bytes = std::max((bytes + kAlignment - 1) / kAlignment * kAlignment, kAlignment);
  if (bytes > max_bytes_ || in_use_ > max_bytes_ - bytes) [[unlikely]]
    return ResourceExhausted("the tensor lists of this run want more than {} bytes; lists must be shorter", max_bytes_);
  while (chunk_ < chunks_.size() && chunks_[chunk_].size() - used_ < bytes) {
    ++chunk_;
    used_ = 0;
  }
  if (chunk_ == chunks_.size()) [[unlikely]] {
    const size_t size = std::max(bytes, std::clamp(held_, kFirstChunk, kLargestDoubling));
    RIVULET_ASSIGN_OR_RETURN(AlignedBuffer made, AlignedBuffer::Create(size));
    chunks_.push_back(std::move(made));
    held_ += size;
  }
  std::byte* const at = chunks_[chunk_].data() + used_;
  used_ += bytes;
  in_use_ += bytes;
  return at;
}

StatusOr<const TensorList*> TensorListStore::NewVersion(TensorList::Buffer* buffer, uint32_t version, uint32_t length) {
  RIVULET_ASSIGN_OR_RETURN(std::byte * at, Allocate(sizeof(TensorList)));
  return new (at) TensorList{buffer, version, length};
}

StatusOr<const TensorList*> TensorListStore::Create(DType dtype, int64_t length, int64_t max_length) {
  max_length = std::min<int64_t>(max_length, std::numeric_limits<uint32_t>::max());
  if (length < 0 || length > max_length)
    return InvalidArgument("a list of {} elements was asked for; it may have 0 to {}", length, max_length);
  RIVULET_ASSIGN_OR_RETURN(std::byte * at, Allocate(sizeof(TensorList::Buffer)));
  auto* buffer = new (at) TensorList::Buffer;
  buffer->dtype = dtype;
  buffer->max_length = static_cast<uint32_t>(max_length);
  buffer->capacity = static_cast<uint32_t>(length);
  if (length > 0) {
    RIVULET_ASSIGN_OR_RETURN(std::byte * slots, Allocate(static_cast<size_t>(length) * sizeof(Slot)));
    buffer->slots = reinterpret_cast<Slot*>(slots);
    std::uninitialized_value_construct_n(buffer->slots, length);
  }
  return NewVersion(buffer, 0, buffer->capacity);
}

// Doubling makes a list built by pushes linear in its length, and old
// tables together are no larger than the last. A buffer with exhausted
// version numbers is treated as not the newest: its copy counts from 0.
StatusOr<TensorList> TensorListStore::Writable(const TensorList* list, uint32_t capacity) {
  TensorList::Buffer* const old = list->buffer;
  const bool newest = list->version == old->newest && old->newest < std::numeric_limits<uint32_t>::max();
  if (newest && capacity <= old->capacity) return *list;
  const uint32_t grown = newest ? std::max({capacity, 4u, 2 * std::min(old->capacity, 1u << 30)}) : capacity;
  RIVULET_ASSIGN_OR_RETURN(std::byte * memory, Allocate(size_t{grown} * sizeof(Slot)));
  Slot* const slots = reinterpret_cast<Slot*>(memory);
  if (newest) {  // includes elements for older versions
    std::uninitialized_copy_n(old->slots, old->capacity, slots);
    std::uninitialized_value_construct_n(slots + old->capacity, grown - old->capacity);
    old->slots = slots;
    old->capacity = grown;
    return *list;
  }
  RIVULET_ASSIGN_OR_RETURN(std::byte * at, Allocate(sizeof(TensorList::Buffer)));
  std::uninitialized_value_construct_n(slots, grown);
  for (uint32_t i = 0; i < std::min(list->length, grown); ++i)
    if (const Slot* slot = SlotOf(*list, i); slot != nullptr) slots[i].element = slot->element;
  auto* copy = new (at) TensorList::Buffer(*old);
  copy->slots = slots;
  copy->capacity = grown;
  copy->newest = 0;
  return TensorList{copy, 0, list->length};
}

StatusOr<const TensorList*> TensorListStore::Set(const TensorList* list, int64_t index, DType dtype, size_t bytes,
                                                 std::byte** element) {
  const uint32_t at = static_cast<uint32_t>(index);
  if (dtype != list->buffer->dtype) [[unlikely]]
    return InvalidArgument("a list of {} cannot hold an element of {}", Name(list->buffer->dtype), Name(dtype));
  if (list->buffer->has_elements && bytes != list->buffer->element_bytes) [[unlikely]] {
    if (HasElements(*list))
      return InvalidArgument(
          "the list has elements of {} bytes, and one of {} was to be put into it; all have one shape",
          list->buffer->element_bytes, bytes);
    // An empty list that was copied: the other list's elements are not this one's.
    RIVULET_ASSIGN_OR_RETURN(list, Create(dtype, list->length, list->buffer->max_length));
  }
  RIVULET_ASSIGN_OR_RETURN(const TensorList writable, Writable(list, std::max(list->length, at + 1)));
  TensorList::Buffer& buffer = *writable.buffer;
  RIVULET_ASSIGN_OR_RETURN(*element, Allocate(bytes));
  buffer.element_bytes = bytes;
  buffer.has_elements = true;
  Slot& slot = buffer.slots[at];
  Slot* older = nullptr;
  if (slot.element != nullptr || slot.older != nullptr) {
    RIVULET_ASSIGN_OR_RETURN(std::byte * kept, Allocate(sizeof(Slot)));
    older = new (kept) Slot(slot);
  }
  // A slot that was never set reads as unset for earlier versions.
  slot = {*element, older, ++buffer.newest};
  return NewVersion(&buffer, buffer.newest, std::max(list->length, at + 1));
}

StatusOr<const TensorList*> TensorListStore::Push(const TensorList* list, DType dtype, size_t bytes,
                                                  std::byte** element) {
  if (list->length >= list->buffer->max_length)
    return InvalidArgument("the list is full: it may have {} elements", list->buffer->max_length);
  return Set(list, list->length, dtype, bytes, element);
}

StatusOr<const TensorList*> TensorListStore::Resize(const TensorList* list, int64_t length) {
  if (length < 0 || length > list->buffer->max_length)
    return InvalidArgument("a list cannot have {} elements; it may have 0 to {}", length, list->buffer->max_length);
  if (length <= list->length) return NewVersion(list->buffer, list->version, static_cast<uint32_t>(length));
  // Elements of a longer version in the buffer must not become visible.
  RIVULET_ASSIGN_OR_RETURN(const TensorList* longer, Create(list->buffer->dtype, length, list->buffer->max_length));
  longer->buffer->element_bytes = list->buffer->element_bytes;
  longer->buffer->has_elements = list->buffer->has_elements;
  for (uint32_t i = 0; i < list->length; ++i)
    if (const Slot* slot = SlotOf(*list, i); slot != nullptr) longer->buffer->slots[i].element = slot->element;
  return longer;
}

}  // namespace rivulet
