#include "coordinator/rounds/lease_book.h"

#include <utility>

#include "engine/base/check.h"

namespace rivulet {
namespace {

size_t KindIndex(TaskKind kind) { return static_cast<size_t>(kind); }

}  // namespace

std::string_view Name(Lease::State state) {
  switch (state) {
    case Lease::State::kOffered:
      return "offered";
    case Lease::State::kTaken:
      return "taken";
    case Lease::State::kStaging:
      return "staging";
    case Lease::State::kHeld:
      return "held";
    case Lease::State::kFolding:
      return "folding";
    case Lease::State::kReported:
      return "reported";
    case Lease::State::kLapsed:
      return "lapsed";
    case Lease::State::kFolded:
      return "folded";
    case Lease::State::kRefused:
      return "refused";
    case Lease::State::kDropped:
      return "dropped";
    case Lease::State::kFailed:
      return "failed";
  }
  RIVULET_CHECK(false, "state {}", static_cast<int>(state));
}

LeaseSlot LeaseBook::Add(Lease lease) {
  LeaseSlot slot = static_cast<LeaseSlot>(slots_.size());
  if (free_.empty()) {
    slots_.emplace_back();
    order_.push_back(0);
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  const bool fresh = by_task_.emplace(lease.task, slot).second;
  RIVULET_CHECK(fresh, "task {} is leased twice", lease.task);
  by_client_[KindIndex(lease.kind)][lease.client_id] = slot;
  order_[slot] = added_++;
  slots_[slot] = std::move(lease);
  Index(slot);
  return slot;
}

std::optional<LeaseSlot> LeaseBook::Find(const TaskId& task) const {
  const auto found = by_task_.find(task);
  return found == by_task_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<LeaseSlot> LeaseBook::OfClient(const std::string& client_id, TaskKind kind) const {
  const auto& of_kind = by_client_[KindIndex(kind)];
  const auto found = of_kind.find(client_id);
  return found == of_kind.end() ? std::nullopt : std::optional(found->second);
}

std::optional<LeaseSlot> LeaseBook::NextOffered(TaskKind kind) const {
  const auto& of_kind = offered_[KindIndex(kind)];
  return of_kind.empty() ? std::nullopt : std::optional(of_kind.begin()->second);
}

std::optional<LeaseSlot> LeaseBook::NextOffered(TaskKind kind, const std::string& via) const {
  const auto& of_kind = offered_via_[KindIndex(kind)];
  const auto found = of_kind.find(via);
  return found == of_kind.end() ? std::nullopt : std::optional(found->second.begin()->second);
}

std::vector<LeaseSlot> LeaseBook::InHandOf(const std::string& site) const {
  std::vector<LeaseSlot> slots;
  if (const auto found = in_hand_.find(site); found != in_hand_.end()) {
    for (const auto& [order, slot] : found->second) slots.push_back(slot);
  }
  return slots;
}

std::vector<LeaseSlot> LeaseBook::Expired(TimeMs now) const {
  std::vector<LeaseSlot> slots;
  for (auto entry = expiries_.begin(); entry != expiries_.end() && entry->first <= now; ++entry) {
    slots.push_back(entry->second);
  }
  return slots;
}

void LeaseBook::Take(LeaseSlot slot, const std::string& site) {
  RIVULET_CHECK(slots_[slot].state == Lease::State::kOffered || slots_[slot].state == Lease::State::kLapsed);
  Unindex(slot);
  slots_[slot].site = site;
  slots_[slot].state = Lease::State::kTaken;
  Index(slot);
}

void LeaseBook::Release(LeaseSlot slot, Lease::State state) {
  Unindex(slot);
  slots_[slot].site.clear();
  if (state == Lease::State::kOffered) slots_[slot].step = slots_[slot].told_step = 0;
  slots_[slot].state = state;
  slots_[slot].expires = 0;
  Index(slot);
}

void LeaseBook::Extend(LeaseSlot slot, TimeMs expires) {
  Unindex(slot);
  slots_[slot].expires = expires;
  Index(slot);
}

void LeaseBook::SetState(LeaseSlot slot, Lease::State state, std::string reason) {
  Unindex(slot);
  slots_[slot].state = state;
  if (state >= Lease::State::kFolding) slots_[slot].expires = 0;
  slots_[slot].reason = std::move(reason);
  Index(slot);
}

void LeaseBook::BeginStep(LeaseSlot slot, int step) {
  RIVULET_CHECK(slots_[slot].state == Lease::State::kReported);
  Unindex(slot);
  slots_[slot].step = step;
  slots_[slot].state = Lease::State::kTaken;
  Index(slot);
}

void LeaseBook::MarkSummed(LeaseSlot slot) {
  RIVULET_CHECK(slots_[slot].state == Lease::State::kFolding);
  Unindex(slot);
  slots_[slot].summed = true;
  slots_[slot].state = Lease::State::kReported;
  Index(slot);
}

void LeaseBook::MakeDue(LeaseSlot slot) {
  Unindex(slot);
  slots_[slot].due = true;
  Index(slot);
}

void LeaseBook::SetVia(LeaseSlot slot, const std::string& via) {
  Unindex(slot);
  slots_[slot].via = via;
  Index(slot);
}

void LeaseBook::Remove(LeaseSlot slot) {
  Unindex(slot);
  by_task_.erase(slots_[slot].task);
  auto& of_kind = by_client_[KindIndex(slots_[slot].kind)];
  const auto newest = of_kind.find(slots_[slot].client_id);
  if (newest != of_kind.end() && newest->second == slot) of_kind.erase(newest);
  slots_[slot] = Lease{};
  free_.push_back(slot);
}

void LeaseBook::Index(LeaseSlot slot) {
  const Lease& lease = slots_[slot];
  if (lease.state == Lease::State::kOffered && lease.due) {
    offered_[KindIndex(lease.kind)].emplace(order_[slot], slot);
    if (!lease.via.empty()) offered_via_[KindIndex(lease.kind)][lease.via].emplace(order_[slot], slot);
  }
  if (lease.in_hand()) in_hand_[lease.site].emplace(order_[slot], slot);
  if (lease.expires != 0) expiries_.emplace(lease.expires, slot);
}

// Nothing is stored for a site without a lease in hand: in a deployed run every client is a site.
void LeaseBook::Unindex(LeaseSlot slot) {
  const Lease& lease = slots_[slot];
  if (lease.state == Lease::State::kOffered) {
    offered_[KindIndex(lease.kind)].erase(order_[slot]);
    auto& of_aggregators = offered_via_[KindIndex(lease.kind)];
    if (const auto aggregator = lease.via.empty() ? of_aggregators.end() : of_aggregators.find(lease.via);
        aggregator != of_aggregators.end()) {
      aggregator->second.erase(order_[slot]);
      if (aggregator->second.empty()) of_aggregators.erase(aggregator);
    }
  }
  if (lease.expires != 0) expiries_.erase({lease.expires, slot});
  if (!lease.in_hand()) return;
  const auto site = in_hand_.find(lease.site);
  site->second.erase(order_[slot]);
  if (site->second.empty()) in_hand_.erase(site);
}

}  // namespace rivulet
