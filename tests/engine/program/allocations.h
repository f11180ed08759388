// Counts this thread's allocations with operator new.
#pragma once

#include <functional>
#include <string>

namespace rivulet::testing {

struct AllocationCount {
  int ours = 0;
  int libraries = 0;       // called from a shared library that is neither this program nor the C++ library
  std::string of_library;  // the first such library
};

AllocationCount CountAllocationsApart(const std::function<void()>& body);

int CountAllocations(const std::function<void()>& body);  // both

}  // namespace rivulet::testing
