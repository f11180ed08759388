// Columns of a task's result (federated/tasks/task_result.h) in messages and among declared scalars. Columns of a site
// are fields of a protobuf message under their numbers: a real number is a fixed64 of a double, a count or a flag a
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

// Sets the client's columns from scalars of their names. A scalar that is no such number is left out.
void ReadDeclared(const Scalars& declared, TaskResult& result);

// Adds the site's columns that are known as fields of `message`, which has no fields of these numbers itself.
// `beside`: the number of a column that the message has a field for; 0: none.
void WriteSiteColumns(const TaskResult& result, google::protobuf::Message& message, int beside = 0);
// INVALID_ARGUMENT: a value below 0 or one that is no number; `whose`: "the record of task 'x'".
Status ReadSiteColumns(const google::protobuf::Message& message, const std::string& whose, TaskResult& result);

}  // namespace rivulet
