// A task failure, in words that may leave a client: a code, its subject, and counts. The whole sentence, with paths and
// values of the data, stays in the client's log.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "federated/tasks/task.h"

namespace rivulet {

// The subject of what concerns a client's state.
inline constexpr char kStateSubject[] = "state";

struct TaskFailure {
  enum class Code : uint8_t {
    kUnknown = 0,
    kNoExamples = 1,  // subject: the data set
    kBadExample = 2,  // subject: the feature, or ""; counts: record
    kBadPlan = 3,     // subject: op and node, or ""
    // What the task starts from did not arrive whole, or is not of the plan; subject: kStateSubject where it is what
    // the client kept, with which it then begins anew; or "".
    kBadModel = 4,
    // Its update was made, and whoever folds it there does not take it: the task ends as refused, as if the update had
    // been sent.
    kBadUpdate = 5,
    kNotWilling = 6,     // subject: what of the client's own configuration forbids it
    kUnimplemented = 7,  // subject: what this client does not know
    kExternal = 8,       // the plan has no graph, and this client runs graphs alone
    kRaised = 9,         // code of the client's own, which is no part of its program, failed; subject: how and where
  };
  TaskId task;
  Code code = Code::kUnknown;
  std::string subject;
  std::map<std::string, int64_t> counts;
  // Of a site in the coordinator's own process, whose log is the coordinator's: all of it. Never over a network.
  std::string sentence = {};
};

// For rows and logs, whatever a stranger has put in: one line that shows, at most some 300 bytes of it his. "feature
// 'label' of its record 3 cannot be used".
std::string SentenceOf(const TaskFailure& failure);

}  // namespace rivulet
