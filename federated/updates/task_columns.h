// Columns of a task's result (federated/tasks/task_result.h) in messages and among declared scalars. Columns of a site
// are fields of a protobuf message with fixed numbers: a real number is a fixed64 of a double, a count or a flag a
// varint. A field unknown to the reader, or omitted by the writer, is no error.
#pragma once

#include <string>

#include "engine/base/status.h"
#include "federated/tasks/task.h"
#include "federated/tasks/task_result.h"

namespace google::protobuf {
class Message;
}

namespace rivulet {

// Sets the client's columns from scalars of their names. Values that are not valid are skipped.
void ReadDeclared(const Scalars& declared, TaskResult& result);

// Adds the site's known columns as fields of `message`, which must not define fields with these numbers. `beside`: the
// number of a column for which the message does have a field; 0: none.
void WriteSiteColumns(const TaskResult& result, google::protobuf::Message& message, int beside = 0);
// INVALID_ARGUMENT: a value is negative or not a number; `whose`: "the record of task 'x'".
Status ReadSiteColumns(const google::protobuf::Message& message, const std::string& whose, TaskResult& result);

}  // namespace rivulet
