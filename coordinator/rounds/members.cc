#include "coordinator/rounds/members.h"

#include <algorithm>
#include <limits>

#include "coordinator/selection/uniform.h"

namespace rivulet {

Members::Members() : names_(OpenPopulation(std::numeric_limits<int64_t>::max())) {}

void Members::Add(const std::string& client_id, DrawAt from, const std::string& via) {
  if (Knows(client_id) || !names_->Insert(client_id).ok()) return;
  gone_.erase(client_id);
  if (from > draw_) late_.emplace(client_id, from);
  if (!via.empty()) via_.emplace(client_id, via);
}

void Members::Remove(const std::string& client_id) {
  if (!Knows(client_id)) return;
  gone_.insert(client_id);
  late_.erase(client_id);
  via_.erase(client_id);
}

bool Members::Knows(const std::string& client_id) const {
  return names_->Find(client_id).has_value() && !gone_.contains(client_id);
}

int64_t Members::size() const { return names_->size() - static_cast<int64_t>(gone_.size()); }

const std::string& Members::via(const std::string& client_id) const {
  static const std::string none;
  const auto found = via_.find(client_id);
  return found == via_.end() ? none : found->second;
}

void Members::BeginDraw(DrawAt draw) {
  draw_ = draw;
  std::erase_if(late_, [draw](const auto& entry) { return entry.second <= draw; });
}

int64_t Members::eligible() const { return size() - static_cast<int64_t>(late_.size()); }

// Ranks among the eligible are those among all names, less those who stand before them and may not be drawn. These are
// few: after a restart, who joined while the attempt that was cut off had been open, and who has left.
std::vector<std::string> Members::Draw(uint64_t seed, int64_t count) const {
  std::vector<int64_t> absent;
  for (const std::string& client_id : gone_) absent.push_back(*names_->Find(client_id));
  for (const auto& [client_id, from] : late_) absent.push_back(*names_->Find(client_id));
  std::sort(absent.begin(), absent.end());
  for (size_t i = 0; i < absent.size(); ++i) absent[i] -= static_cast<int64_t>(i);  // eligible names before it
  std::vector<int64_t> ranks = SelectUniform(eligible(), count, seed, draw_.round, draw_.attempt);
  for (int64_t& rank : ranks) rank += std::upper_bound(absent.begin(), absent.end(), rank) - absent.begin();
  return names_->NamesAt(ranks);
}

void Members::ForEach(
    const std::function<void(const std::string& client_id, DrawAt from, const std::string& via)>& use) const {
  for (int64_t rank = 0; rank < names_->size(); ++rank) {
    const std::string client_id = names_->NameAt(rank);
    if (gone_.contains(client_id)) continue;
    const auto late = late_.find(client_id);
    use(client_id, late == late_.end() ? draw_ : late->second, via(client_id));
  }
}

}  // namespace rivulet
