// Counts the mutexes that this program's own code locks in this thread.
#pragma once

#include <functional>

namespace rivulet::testing {

// -1 where a sanitizer takes the place of the lock functions.
int CountLocks(const std::function<void()>& body);

}  // namespace rivulet::testing
