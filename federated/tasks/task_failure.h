// A task failure, in words that may leave a client: a code, its subject, and counts. The full message, with paths and
// values of the data, stays in the client's log.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "federated/tasks/task.h"

namespace rivulet {

// The subject of failures that concern a client's state.
inline constexpr char kStateSubject[] = "state";

struct TaskFailure {
  enum class Code : uint8_t {
    kUnknown = 0,
    kNoExamples = 1,  // subject: the data set
    kBadExample = 2,  // subject: the feature, or ""; counts: record
    kBadPlan = 3,     // subject: op and node, or ""
    // The task's inputs are damaged or do not fit the plan. Subject: kStateSubject if it is the client's stored state,
    // which is then reset; else "".
    kBadModel = 4,
    // The update was made, but the local aggregation refused it: the task ends as refused, as if the update had been
    // sent.
    kBadUpdate = 5,
    kNotWilling = 6,     // subject: the setting of the client's own configuration that forbids it
    kUnimplemented = 7,  // subject: the feature that this client lacks
    kExternal = 8,       // the plan has no graph, and this client only runs graphs
    kRaised = 9,         // the user's code at the client failed; subject: how and where
  };
  TaskId task;
  Code code = Code::kUnknown;
  std::string subject;
  std::map<std::string, int64_t> counts;
  // The full message, from a site in the coordinator's own process, with which it shares the log. Never sent.
  std::string sentence = {};
};

// A sentence for rows and logs, safe for untrusted contents: one printable line, with at most some 300 bytes of these.
// "feature 'label' of its record 3 cannot be used".
std::string SentenceOf(const TaskFailure& failure);

}  // namespace rivulet
