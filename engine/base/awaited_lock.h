// A lock that processes hold for some milliseconds at a time.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "engine/base/file_system.h"

namespace rivulet {

// As FileLock::Acquire, tried again for `patience`. UNAVAILABLE: it was held all that time.
StatusOr<std::unique_ptr<FileLock>> AwaitLock(const std::string& path, std::chrono::milliseconds patience);

}  // namespace rivulet
