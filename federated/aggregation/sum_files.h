// Files for the sums of a process whose models are large compared with its memory (server.partial = "disk"). The system
// may write a file's pages out and read them again, so they count as page cache and not as the process's memory.
//
// Files have no name, so they disappear with their last owner, however the process ends. All blocks of a file are
// reserved before it is mapped: a full disk is an error here, not a signal later.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/mutex.h"
#include "engine/base/recycled_pages.h"
#include "engine/base/status.h"
#include "federated/aggregation/aggregation_spec.h"

namespace rivulet {

// Thread-safe. Arrays from Take may outlive it.
class SumFiles {
 public:
  // Reserves the files for one partial sum of `spec` until this object is destroyed: a version made from one sum needs
  // no others. RESOURCE_EXHAUSTED: `folder`'s disk has no room, or files cannot be so long. INTERNAL: the folder is not
  // writable.
  static StatusOr<std::shared_ptr<SumFiles>> Create(std::string folder, const AggregationSpec& spec);
  // Returns memory in a file of exactly `bytes` bytes, at least 1, aligned to a page, with arbitrary contents. Errors
  // as in Create.
  StatusOr<std::shared_ptr<std::byte>> Take(size_t bytes);

 private:
  struct File;
  struct Idle;
  explicit SumFiles(std::string folder);

  const std::string folder_;
  const std::shared_ptr<Idle> idle_;
};

// Allocator of one array of sums: in recycled memory, or in `file`, of exactly the array's size. A copy of an array is
// in memory; moving an array moves its file.
template <class T>
class SumPages {
 public:
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;
  using is_always_equal = std::false_type;

  SumPages() = default;
  SumPages(std::shared_ptr<std::byte> file, size_t bytes) : file_(std::move(file)), bytes_(bytes) {}
  template <class U>
  SumPages(const SumPages<U>& other) : file_(other.file()), bytes_(other.bytes()) {}
  SumPages select_on_container_copy_construction() const { return {}; }

  T* allocate(size_t count) {
    if (file_ == nullptr) return static_cast<T*>(AllocateRecycled(count * sizeof(T)));
    RIVULET_CHECK(count * sizeof(T) == bytes_, "a file of {} bytes is no array of {}", bytes_, count * sizeof(T));
    return reinterpret_cast<T*>(file_.get());
  }
  void deallocate(T* data, size_t count) {
    if (file_ == nullptr) FreeRecycled(data, count * sizeof(T));
  }
  const std::shared_ptr<std::byte>& file() const { return file_; }  // null: in memory
  size_t bytes() const { return bytes_; }
  template <class U>
  bool operator==(const SumPages<U>& other) const {
    return file_ == other.file();
  }

 private:
  std::shared_ptr<std::byte> file_;
  size_t bytes_ = 0;
};

template <class T>
using SumArray = std::vector<T, SumPages<T>>;

}  // namespace rivulet
