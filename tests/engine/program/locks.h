// Counts the mutexes that this program's code locks in this thread.
#pragma once

#include <functional>

namespace rivulet::testing {

// Returns -1 if a sanitizer replaces the lock functions.
int CountLocks(const std::function<void()>& body);

}  // namespace rivulet::testing
