#include "coordinator/ledger/state_book.h"

#include <algorithm>

namespace rivulet {

void StateBook::Folded(const TaskId& task) {
  const auto name = TaskNameOf(task, run_id_);
  if (!name) return;
  const Place place = {name->round, name->attempt, name->ordinal};
  const auto [newest, first] = newest_.try_emplace(name->client_id, place);
  if (first || newest->second == place) return;
  if (oldest_) {
    earlier_[name->client_id].push_back(newest->second);
    superseded_.emplace_back(place.round, name->client_id);
  }
  newest->second = place;
}

void StateBook::AskedFrom(std::optional<int64_t> oldest) {
  oldest_ = oldest;
  while (!superseded_.empty() && (!oldest_ || superseded_.front().first <= *oldest_)) {
    const auto earlier = earlier_.find(superseded_.front().second);
    earlier->second.pop_front();
    if (earlier->second.empty()) earlier_.erase(earlier);
    superseded_.pop_front();
  }
}

TaskId StateBook::Of(const std::string& client_id) const {
  const auto found = newest_.find(client_id);
  return found == newest_.end() ? "" : TaskAt(client_id, found->second);
}

TaskId StateBook::AsOf(const std::string& client_id, int64_t version) const {
  const auto newest = newest_.find(client_id);
  if (newest != newest_.end() && newest->second.round <= version) return TaskAt(client_id, newest->second);
  const auto earlier = earlier_.find(client_id);
  if (earlier == earlier_.end()) return "";
  const auto& places = earlier->second;
  const auto at =
      std::find_if(places.rbegin(), places.rend(), [version](const Place& place) { return place.round <= version; });
  return at == places.rend() ? "" : TaskAt(client_id, *at);
}

TaskId StateBook::TaskAt(const std::string& client_id, const Place& place) const {
  return TaskIdOf(run_id_, {TaskKind::kTrain, place.round, place.attempt, client_id, place.ordinal});
}

}  // namespace rivulet
