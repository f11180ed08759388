// The part of an error that may leave this client: a reason, the op, key or feature at fault, and counts
// (federated/tasks/task_failure.h). The code that makes the error attaches the reason; the code that passes it up need
// not know it.
#pragma once

#include <string_view>

#include "engine/base/status.h"
#include "federated/tasks/task_failure.h"

namespace rivulet {

// The error with its reason; one that has a reason already keeps it. OK stays OK.
Status WithReason(Status status, TaskFailure::Code code, std::string_view subject = "");
// Without the error's sentence. An error without a reason counts as a bad example if it names a feature or a record,
// and as a bad plan if it names an op.
TaskFailure FailureOf(const TaskId& task, const Status& status);

}  // namespace rivulet
