#include "coordinator/rounds/members.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace rivulet {

Members::Members(uint64_t seed, std::shared_ptr<Population> population, std::shared_ptr<const Selector> selector,
                 int64_t wanted, std::shared_ptr<const privacy::NoiseKey> key)
    : seed_(seed),
      selector_(std::move(selector)),
      wanted_(wanted),
      key_(std::move(key)),
      names_(population != nullptr ? std::move(population) : OpenPopulation(std::numeric_limits<int64_t>::max())) {}

void Members::Add(const std::string& client_id, DrawAt from, const std::string& via) {
  if (Knows(client_id) || !names_->Insert(client_id).ok()) return;
  absent_.reset();
  gone_.erase(client_id);
  if (order_ != nullptr) from = std::max(from, DrawAt{draw_.round, draw_.attempt + 1});
  if (from > draw_) late_.emplace(client_id, from);
  if (beside_ && !beside_->leaving.contains(client_id)) {
    beside_->outside.insert(client_id);
    beside_->absent.reset();
  }
  if (!via.empty()) via_.emplace(client_id, via);
}

void Members::Remove(const std::string& client_id) {
  if (!Knows(client_id)) return;
  absent_.reset();
  via_.erase(client_id);
  if (beside_ && !beside_->outside.contains(client_id)) beside_->leaving.insert(client_id);
  const bool late = late_.erase(client_id) > 0;
  if (leaving_.contains(client_id)) return;  // it had returned
  (order_ == nullptr || late ? gone_ : leaving_).insert(client_id);
}

bool Members::Knows(const std::string& client_id) const {
  return names_->Find(client_id).has_value() && !gone_.contains(client_id) &&
         (!leaving_.contains(client_id) || late_.contains(client_id));
}

int64_t Members::size() const {
  const int64_t left = std::count_if(leaving_.begin(), leaving_.end(),
                                     [&](const std::string& client_id) { return !late_.contains(client_id); });
  return names_->size() - static_cast<int64_t>(gone_.size()) - left;
}

const std::string& Members::via(const std::string& client_id) const {
  static const std::string none;
  const auto found = via_.find(client_id);
  return found == via_.end() ? none : found->second;
}

void Members::SetVia(const std::string& client_id, const std::string& via) {
  if (via.empty()) {
    via_.erase(client_id);
  } else {
    via_.insert_or_assign(client_id, via);
  }
}

void Members::BeginDraw(DrawAt draw) {
  draw_ = draw;
  order_.reset();
  absent_.reset();
  for (const std::string& client_id : leaving_) {
    if (!late_.contains(client_id)) gone_.insert(client_id);
  }
  leaving_.clear();
  std::erase_if(late_, [draw](const auto& entry) { return entry.second <= draw; });
}

// Members that left since the draw began keep their place in its order; without them the others' order would change.
int64_t Members::eligible() const {
  const int64_t late =
      std::count_if(late_.begin(), late_.end(), [&](const auto& entry) { return !leaving_.contains(entry.first); });
  return names_->size() - static_cast<int64_t>(gone_.size()) - late;
}

void Members::BeginOrder() {
  if (order_ != nullptr) return;
  CohortDraw draw = {seed_, draw_.round, draw_.attempt, TaskKind::kTrain, eligible(), wanted_};
  sample_.reset();
  if (key_ != nullptr) {
    const privacy::NoiseKey of_version = CohortKey(*key_, draw_.round);
    draw.seed = SeedOf(of_version);
    draw.attempt = 1;
    if (selector_ != nullptr && selector_->rate() < 1) sample_.emplace(of_version, selector_->rate());
  }
  if (selector_ == nullptr) {
    order_ = UniformOrder(draw);
    return;
  }
  const std::vector<CohortDraw::Known> known = KnownRanks();
  draw.known = known;
  order_ = selector_->OrderOf(draw);
}

void Members::Remember(const std::string& client_id, const Participation& participation) {
  Participation& of = participations_[client_id];
  of = participation;
  if (!std::isfinite(of.loss)) of.loss = 0;  // treated as not reported: it gives no order
  if (!std::isfinite(of.duration)) of.duration = 0;
}

// Ascending by rank among the eligible, since participations are in byte order of names.
std::vector<CohortDraw::Known> Members::KnownRanks() const {
  std::vector<CohortDraw::Known> known;
  if (participations_.empty()) return known;
  const std::vector<int64_t> outside = Outside();
  for (const auto& [client_id, participation] : participations_) {
    const std::optional<int64_t> rank = names_->Find(client_id);
    const auto before = rank ? std::ranges::lower_bound(outside, *rank) : outside.end();
    if (!rank || (before != outside.end() && *before == *rank)) continue;
    known.push_back({*rank - (before - outside.begin()), participation});
  }
  return known;
}

// A rank among the eligible is the rank among all names, less the ineligible names before it. These are few: after a
// restart, names that joined during the interrupted attempt; names that join now; and names that left.
const std::vector<int64_t>& Members::Absent() {
  if (!absent_) absent_ = Before(Outside());
  return *absent_;
}

std::vector<int64_t> Members::Outside() const {
  std::vector<int64_t> ranks;
  for (const std::string& client_id : gone_) ranks.push_back(*names_->Find(client_id));
  for (const auto& [client_id, from] : late_) {
    if (!leaving_.contains(client_id)) ranks.push_back(*names_->Find(client_id));
  }
  std::ranges::sort(ranks);
  return ranks;
}

std::vector<int64_t> Members::Before(std::vector<int64_t> ranks) const {
  std::sort(ranks.begin(), ranks.end());
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i] -= static_cast<int64_t>(i);
  return ranks;
}

std::vector<std::string> Members::Draw(int64_t count,
                                       const std::function<bool(const std::string& client_id)>& pass_over) {
  BeginOrder();
  if (!sample_) return Take(count, *order_, Absent(), leaving_, pass_over);
  return Take(count, *order_, Absent(), leaving_,
              [&](const std::string& client_id) { return !sample_->Has(client_id) || pass_over(client_id); });
}

void Members::BeginBeside(TaskKind kind, DrawAt draw) {
  std::vector<std::string> outside(gone_.begin(), gone_.end());
  for (const auto& [client_id, from] : late_) outside.push_back(client_id);
  for (const std::string& client_id : leaving_) outside.push_back(client_id);
  RestoreBeside(kind, draw, outside, {}, 0);
}

std::vector<std::string> Members::DrawBeside(int64_t count,
                                             const std::function<bool(const std::string& client_id)>& pass_over) {
  if (!beside_->absent) {
    std::vector<int64_t> ranks;
    for (const std::string& client_id : beside_->outside) ranks.push_back(*names_->Find(client_id));
    beside_->absent = Before(std::move(ranks));
  }
  return Take(count, *beside_->order, *beside_->absent, beside_->leaving, pass_over);
}

std::vector<std::string> Members::Take(int64_t count, Order& order, const std::vector<int64_t>& absent,
                                       const std::set<std::string>& leaving,
                                       const std::function<bool(const std::string& client_id)>& pass_over) const {
  std::vector<std::string> drawn;
  while (static_cast<int64_t>(drawn.size()) < count) {
    std::vector<int64_t> ranks;
    for (int64_t missing = count - static_cast<int64_t>(drawn.size()); missing > 0; --missing) {
      const std::optional<int64_t> rank = order.Next();
      if (!rank) break;
      ranks.push_back(*rank + (std::upper_bound(absent.begin(), absent.end(), *rank) - absent.begin()));
    }
    if (ranks.empty()) break;
    for (std::string& client_id : names_->NamesAt(ranks)) {
      if (!leaving.contains(client_id) && !pass_over(client_id)) drawn.push_back(std::move(client_id));
    }
  }
  return drawn;
}

std::vector<Members::Member> Members::told() const {
  std::vector<Member> told;
  if (!names_->open()) {
    for (const auto& [client_id, from] : late_) told.push_back({client_id, from, via(client_id)});
    return told;
  }
  for (int64_t rank = 0; rank < names_->size(); ++rank) {
    std::string client_id = names_->NameAt(rank);
    if (!Knows(client_id)) continue;
    const auto late = late_.find(client_id);
    const std::string& via = this->via(client_id);
    told.push_back({std::move(client_id), late == late_.end() ? draw_ : late->second, via});
  }
  return told;
}

// Restores in the original order: members when the draw began, names it gave, then those that left and joined since.
void Members::Restore(const std::vector<Member>& members, const std::vector<std::string>& gone,
                      const std::vector<std::string>& leaving, int64_t drawn) {
  for (const Member& member : members) {
    if (member.from <= draw_) {
      Add(member.client_id, member.from, member.via);
    } else {
      Remove(member.client_id);  // from a population that contains it
    }
  }
  for (const std::string& client_id : gone) Remove(client_id);
  for (const std::string& client_id : leaving) Add(client_id, draw_, "");
  if (drawn >= 0) BeginOrder();
  for (int64_t i = 0; i < drawn && order_->Next(); ++i) {
  }
  for (const std::string& client_id : leaving) Remove(client_id);
  for (const Member& member : members) Add(member.client_id, member.from, member.via);
}

std::set<std::string> Members::outside_beside() const {
  if (!names_->open()) return beside_->outside;
  std::set<std::string> outside;
  for (const std::string& client_id : beside_->outside) {
    if (Knows(client_id) || leaving_.contains(client_id)) outside.insert(client_id);
  }
  return outside;
}

// A name that has left is still in the order, so a rebuilt population must contain it.
void Members::RestoreBeside(TaskKind kind, DrawAt draw, const std::vector<std::string>& outside,
                            const std::vector<std::string>& leaving, int64_t drawn) {
  for (const std::string& client_id : leaving) {
    const auto inserted = names_->Insert(client_id);
    if (inserted.ok() && *inserted) gone_.insert(client_id);
    absent_.reset();
  }
  std::set<std::string> without(outside.begin(), outside.end());
  auto order =
      UniformOrder({seed_, draw.round, draw.attempt, kind, names_->size() - static_cast<int64_t>(without.size())});
  for (int64_t i = 0; i < drawn && order->Next(); ++i) {
  }
  beside_.emplace(Beside{std::move(order), std::move(without), {leaving.begin(), leaving.end()}, {}});
}

}  // namespace rivulet
