// Amount of memory that this process may still allocate.
#pragma once

#include <cstddef>

namespace rivulet {

// Bytes that can be taken without the system having to end somebody: what the machine has available, or what is left of
// the limit of this process's control group (cgroup, versions 1 and 2) where that is less. SIZE_MAX where the system
// does not tell. Reads a few files; for large sizes only.
size_t AvailableMemory();

}  // namespace rivulet
