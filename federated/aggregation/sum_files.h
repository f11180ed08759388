// Files for the sums of a process whose models are large beside its memory (server.partial = "disk"). The pages of a
// file are the system's to write out and read again, so they count as its cache and not as the process's memory.
//
// A file has no name: it goes with its last owner, however the process ends. All of its blocks are reserved before it
// is mapped, so a full disk is an error here and no signal later.
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

// Thread-safe. What it gives may outlive it.
class SumFiles {
 public:
  // With the files of one partial sum of `spec`, which are reserved until this ends: a version made from one sum needs
  // no other. RESOURCE_EXHAUSTED: `folder`'s disk has no room for them, or no file may be so long. INTERNAL: the folder
  // cannot be written to.
  static StatusOr<std::shared_ptr<SumFiles>> Create(std::string folder, const AggregationSpec& spec);
  // Memory in a file of exactly `bytes` bytes, at least 1, at a multiple of a page; its content is anything. Errors as
  // Create's.
  StatusOr<std::shared_ptr<std::byte>> Take(size_t bytes);

 private:
  struct File;
  struct Idle;
  explicit SumFiles(std::string folder);

  const std::string folder_;
  const std::shared_ptr<Idle> idle_;
};

// Allocator of one array of sums: in memory that is recycled, or in `file`, of exactly the array's size. A copy of an
// array is in memory; an array that is moved takes its file along.
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
