// Files for the sums of a process whose models are large beside its memory (server.partial = "disk"). The pages of a
// file are the system's to write out and read again, so they count as its cache and not as the process's memory.
//
// A file has no name: it goes with its last owner, however the process ends. All of its blocks are reserved before it
// is mapped, so a full disk is an error here and no signal later.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "engine/base/mutex.h"
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

}  // namespace rivulet
