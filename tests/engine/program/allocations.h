// Counts what this thread allocates with operator new.
#pragma once

#include <functional>

namespace rivulet::testing {

int CountAllocations(const std::function<void()>& body);

}  // namespace rivulet::testing
