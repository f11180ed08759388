// The columns that client and site report for a task (kTaskColumns), as bytes of a file that outlives its process. The
// bytes are a length, then for each known column its name and eight bytes. A column unknown to the reader, or omitted
// by the writer, is no error, so that programs with different lists read each other's files.
#pragma once

#include <string>
#include <string_view>

#include "federated/tasks/task_result.h"

namespace rivulet {

std::string PackStated(const TaskResult& result);
// Removes them from the front of `bytes`. False: they are truncated, and `result` has only some of them.
bool TakeStated(std::string_view& bytes, TaskResult& result);

}  // namespace rivulet
