#include "coordinator/ledger/state_book.h"

namespace rivulet {

void StateBook::Folded(const TaskId& task) {
  if (const auto name = TaskNameOf(task, run_id_)) {
    newest_[name->client_id] = {name->round, name->attempt, name->ordinal};
  }
}

TaskId StateBook::Of(const std::string& client_id) const {
  const auto found = newest_.find(client_id);
  if (found == newest_.end()) return "";
  const Newest& newest = found->second;
  return TaskIdOf(run_id_, {TaskKind::kTrain, newest.round, newest.attempt, client_id, newest.ordinal});
}

}  // namespace rivulet
