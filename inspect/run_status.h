// Current status of a run: whether it is still running.
#pragma once

#include <string>

namespace rivulet {

// The run's `status` in its row, but "interrupted" if that is "running" and no process holds the run's lock: it was
// killed before it could write its end. `real_path` is History::real_path.
std::string StatusNow(const std::string& real_path, const std::string& run_id, const std::string& status);

}  // namespace rivulet
