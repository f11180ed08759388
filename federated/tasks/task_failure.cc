#include "federated/tasks/task_failure.h"

#include <fmt/format.h>

#include "engine/base/display_name.h"

namespace rivulet {
namespace {

// The name that clients use, in Python too (_agent.py).
constexpr std::string_view kBaseSubject = "base";
constexpr size_t kMostOfSubject = 200;
constexpr size_t kMostOfSentence = 1000;

}  // namespace

std::string SentenceOf(const TaskFailure& failure) {
  if (!failure.sentence.empty()) return DisplayText(failure.sentence, kMostOfSentence);
  const std::string subject = DisplayText(failure.subject, kMostOfSubject);
  const auto record = failure.counts.find("record");
  switch (failure.code) {
    case TaskFailure::Code::kNoExamples:
      return fmt::format("it has no examples in a data set '{}'", subject);
    case TaskFailure::Code::kBadExample:
      return fmt::format("{}its {} cannot be used", subject.empty() ? "" : fmt::format("feature '{}' of ", subject),
                         record == failure.counts.end() ? "data" : fmt::format("record {}", record->second));
    case TaskFailure::Code::kBadPlan:
      return subject.empty() ? "the plan cannot be carried out there"
                             : fmt::format("the plan cannot be carried out there: {} fails", subject);
    case TaskFailure::Code::kBadModel:
      if (failure.subject == kStateSubject)
        return "its state from the last task is lost there; it starts again without state";
      if (failure.subject == kBaseSubject)
        return "it does not have the plan's base, and could not download it; its own log says how to give it one";
      return "the model to start from did not arrive there as the plan wants it";
    case TaskFailure::Code::kBadUpdate:
      return "its own site does not take its update";
    case TaskFailure::Code::kNotWilling:
      return fmt::format("its own configuration forbids it: {}", subject);
    case TaskFailure::Code::kUnimplemented:
      return fmt::format("its program does not know {}; update it", subject);
    case TaskFailure::Code::kExternal:
      return "the plan has no graph, and it runs graphs; clients of the Python package train such a model";
    case TaskFailure::Code::kRaised:
      return fmt::format("its own code failed: {}", subject.empty() ? "its log has the details" : subject);
    case TaskFailure::Code::kUnknown:
      break;
  }
  return "it cannot be done there; the client's log has the reason";
}

}  // namespace rivulet
