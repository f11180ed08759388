// Current status of a run: whether it is still running.
#pragma once

#include <string>

namespace rivulet {

// `status` of the run as in its row, but "interrupted" if the row has "running" and no process holds its lock: it was
// killed, and could not write its end. `real_path` is History::real_path.
std::string StatusNow(const std::string& real_path, const std::string& run_id, const std::string& status);

}  // namespace rivulet
