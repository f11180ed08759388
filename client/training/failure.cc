#include "client/training/failure.h"

#include <charconv>
#include <string>

#include "engine/base/error_facts.h"

namespace rivulet {
namespace {

constexpr std::string_view kCodeFact = "reason", kSubjectFact = "subject";

// Facts are written by this program; other text counts as no number.
int64_t NumberIn(std::string_view text) {
  int64_t number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

Status WithReason(Status status, TaskFailure::Code code, std::string_view subject) {
  if (!FactOf(status, kCodeFact).empty()) return status;
  status = WithFact(std::move(status), kCodeFact, std::to_string(static_cast<int>(code)));
  return subject.empty() ? status : WithFact(std::move(status), kSubjectFact, subject);
}

TaskFailure FailureOf(const TaskId& task, const Status& status) {
  TaskFailure failure{.task = task};
  if (const std::string code = FactOf(status, kCodeFact); !code.empty()) {
    failure.code = static_cast<TaskFailure::Code>(NumberIn(code));
    failure.subject = FactOf(status, kSubjectFact);
    return failure;
  }
  const std::string feature = FactOf(status, kFeatureFact), record = FactOf(status, kRecordFact),
                    op = FactOf(status, kOpFact);
  if (!feature.empty() || !record.empty()) {
    failure.code = TaskFailure::Code::kBadExample;
    failure.subject = feature;
    if (const int64_t number = NumberIn(record); number >= 0) failure.counts["record"] = number;
  } else if (!op.empty()) {
    failure.code = TaskFailure::Code::kBadPlan;
    failure.subject = op;
  }
  return failure;
}

}  // namespace rivulet
