// Files for the sums of a process whose models are large compared with its memory (server.partial = "disk"). The system
// may write a file's pages out and read them again, so they count as page cache and not as the process's memory.
//
// Files have no name, so they disappear with their last owner, however the process ends. All blocks of a file are
// reserved before it is mapped: a full disk is an error here, not a signal later.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "engine/base/mutex.h"
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

}  // namespace rivulet
