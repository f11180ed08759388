#include "coordinator/rounds/protocol.h"

#include <fmt/format.h>

#include <algorithm>

namespace rivulet {
namespace {

// "<run_id>-r1-a1-client-00003-0" → "r1 a1 client-00003#0".
std::string ShortTask(const TaskId& task, std::string_view run_id) {
  std::string_view rest = task;
  if (rest.starts_with(run_id) && rest.size() > run_id.size() + 1) rest.remove_prefix(run_id.size() + 1);
  const size_t round_end = rest.find('-');
  const size_t attempt_end = round_end == rest.npos ? rest.npos : rest.find('-', round_end + 1);
  const size_t ordinal = rest.rfind('-');
  if (attempt_end == rest.npos || ordinal <= attempt_end) return std::string(rest);
  return fmt::format("{} {} {}#{}", rest.substr(0, round_end), rest.substr(round_end + 1, attempt_end - round_end - 1),
                     rest.substr(attempt_end + 1, ordinal - attempt_end - 1), rest.substr(ordinal + 1));
}

// The part of ShortTask that is the client's.
std::string ShortClient(const TaskId& task, std::string_view run_id) {
  const std::string text = ShortTask(task, run_id);
  size_t space = text.find(' ');
  if (space != text.npos) space = text.find(' ', space + 1);
  return space == text.npos ? text : text.substr(space + 1);
}

}  // namespace

std::string EnoughWithout(TaskKind kind) {
  return kind == TaskKind::kTrain ? "the round had enough updates without it"
                                  : "the evaluation had enough reports without it";
}

char Letter(TaskKind kind) { return kind == TaskKind::kEvaluate ? 'e' : 'r'; }

uint64_t GatherOf(int64_t round, int64_t attempt, TaskKind kind) {
  return static_cast<uint64_t>(round) << 32 | static_cast<uint64_t>(kind) << 31 | static_cast<uint64_t>(attempt);
}

// Short enough for a line of a log, and without the run's id, so that the lines of two runs of one seed can be compared
// as text.
std::string Describe(const Action& action, std::string_view run_id) {
  struct Describer {
    std::string_view run_id;
    std::string operator()(const Offer& a) const {
      return fmt::format("{} {}", a.again ? "offer-again" : "offer", ShortTask(a.lease.task, run_id));
    }
    std::string operator()(const Cancel& a) const { return fmt::format("cancel {}", ShortTask(a.task, run_id)); }
    std::string operator()(const HandOverPartial& a) const {
      return fmt::format("hand-over {}", a.site) + Clients(a.tasks);
    }
    std::string operator()(const AskToWait& a) const { return fmt::format("wait {}", a.client_id); }
    std::string operator()(const Refuse& a) const {
      if (a.task.empty()) return fmt::format("refuse {}: {}", a.client_id, a.reason);
      return fmt::format("refuse {}: {}", ShortTask(a.task, run_id), a.reason);
    }
    std::string operator()(const Stage& a) const { return fmt::format("stage {}", ShortTask(a.task, run_id)); }
    std::string operator()(const Fold& a) const { return fmt::format("fold {}", ShortTask(a.task, run_id)); }
    std::string operator()(const Close& a) const {
      return fmt::format("close {}{} a{}", Letter(a.kind), a.round, a.attempt);
    }
    std::string operator()(const Commit& a) const {
      return fmt::format("commit r{} a{}", a.round, a.attempt) + Clients(a.tasks);
    }
    std::string operator()(const Abandon& a) const {
      return fmt::format("abandon r{} a{}: {}", a.round, a.attempt, a.reason);
    }
    std::string operator()(const Evaluated& a) const {
      if (!a.reason.empty()) return fmt::format("evaluated e{} a{}: {}", a.version, a.attempt, a.reason);
      return fmt::format("evaluated e{} a{}", a.version, a.attempt) + Clients(a.tasks);
    }
    std::string operator()(const WakeAt&) const { return "wake"; }
    // Sorted, so that the line does not depend on the order of arrival.
    std::string Clients(std::vector<TaskId> tasks) const {
      std::sort(tasks.begin(), tasks.end());
      std::string text;
      for (const TaskId& task : tasks) text += " " + ShortClient(task, run_id);
      return text;
    }
  };
  return std::visit(Describer{run_id}, action);
}

}  // namespace rivulet
