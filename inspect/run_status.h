// Current status of a run: whether it is still running.
#pragma once

#include <string>

namespace rivulet {

// `status` of the run as its row has it, but "interrupted" of one whose row says "running" while no process holds its
// lock: it was killed, and nobody was left to write so. `real_path` is History::real_path.
std::string StatusNow(const std::string& real_path, const std::string& run_id, const std::string& status);

}  // namespace rivulet
