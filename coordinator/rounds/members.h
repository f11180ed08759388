// Members of a run: the clients that may be drawn, and the first draw of each. Pure, except for the seeded streams of a
// draw.
//
// A name that joins while an attempt is open may be drawn from the next one on. If it could be drawn at once, the
// cohort would depend on when it joined; and after a crash, on whether it had joined before the attempt is drawn again.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "federated/population/population.h"
#include "federated/privacy/noise_key.h"
#include "federated/selection/poisson_draw.h"
#include "federated/selection/selector.h"
#include "federated/tasks/task.h"

namespace rivulet {

class Members {
 public:
  // The number of a draw: the current one, or the first one that may contain a name.
  struct DrawAt {
    int64_t round = 1, attempt = 1;
    auto operator<=>(const DrawAt&) const = default;
  };

  // `population`: its names are members from the start, as are names that it takes later. Null: any name may join.
  // `selector` draws training cohorts, at first `wanted` clients (CohortDraw::wanted); null: uniform draws. `key`:
  // RunRules::cohort_key.
  explicit Members(uint64_t seed, std::shared_ptr<Population> population = nullptr,
                   std::shared_ptr<const Selector> selector = nullptr, int64_t wanted = 1,
                   std::shared_ptr<const privacy::NoiseKey> key = nullptr);
  // An existing member stays as it is. A name that the population does not take becomes no member. A name that joins
  // after the draw has begun is eligible from a later one, whatever `from` is.
  void Add(const std::string& client_id, DrawAt from, const std::string& via);
  // A member that leaves after the draw has begun is skipped in it.
  void Remove(const std::string& client_id);
  bool Knows(const std::string& client_id) const;
  // Whether Add would take it after `others` more names: see Population::MayInsert.
  Status MayJoin(const std::string& client_id, int64_t others) const { return names_->MayInsert(client_id, others); }
  int64_t size() const;
  bool open() const { return names_->open(); }                 // any name may join
  const std::string& via(const std::string& client_id) const;  // "" for none
  void SetVia(const std::string& client_id, const std::string& via);

  // Records the client's part in its newest update in a version, if the selector remembers; it affects draws that begin
  // later. A name that is no member counts once it joins.
  void Remember(const std::string& client_id, const Participation& participation);
  bool remembers() const { return selector_ != nullptr && selector_->remembers(); }
  const std::map<std::string, Participation>& participations() const { return participations_; }

  // Begins this draw; all later draws follow it in order.
  void BeginDraw(DrawAt draw);
  // The number of members that may be in this draw.
  int64_t eligible() const;
  // The next `count` names in this draw's order, or all that are left: without replacement, and without names that
  // `pass_over` skips. Each name is judged once per draw, when its turn comes, so a client that returns later does not
  // change the cohort. The order is a function of the seed, the draw, the eligible set when it began, and remembered
  // parts. O(count · log size), plus the names that joined too late, have left or are remembered.
  std::vector<std::string> Draw(int64_t count, const std::function<bool(const std::string& client_id)>& pass_over);

  // A second draw beside this one, uniform and with a separate order, among the members that may be in a draw that
  // began now. Later members are not in it, members that leave are skipped. The two draws do not affect each other.
  void BeginBeside(TaskKind kind, DrawAt draw);
  std::vector<std::string> DrawBeside(int64_t count,
                                      const std::function<bool(const std::string& client_id)>& pass_over);
  void EndBeside() { beside_.reset(); }

  struct Member {
    std::string client_id;
    DrawAt from;  // the first draw that it may be in; if that is past, the current one
    std::string via;
  };
  // Content for a snapshot, in byte order of names: all members of an open population; of a closed one, whose names are
  // known, those that may not be drawn yet.
  std::vector<Member> told() const;
  // Names of a closed population that left before the draw began; the population still contains them.
  std::set<std::string> gone() const { return names_->open() ? std::set<std::string>() : gone_; }
  const std::set<std::string>& leaving() const { return leaving_; }  // since the draw began
  // Includes skipped names; -1: the draw has not begun.
  int64_t drawn() const { return order_ ? order_->given() : -1; }
  // Restores what these functions returned, if BeginDraw was called and no name was added.
  void Restore(const std::vector<Member>& members, const std::vector<std::string>& gone,
               const std::vector<std::string>& leaving, int64_t drawn);
  // The same for the draw beside, which is restored later. For an open population only names in the restored one are
  // given.
  std::set<std::string> outside_beside() const;
  const std::set<std::string>& leaving_beside() const { return beside_->leaving; }
  int64_t drawn_beside() const { return beside_ ? beside_->order->given() : -1; }
  void RestoreBeside(TaskKind kind, DrawAt draw, const std::vector<std::string>& outside,
                     const std::vector<std::string>& leaving, int64_t drawn);

 private:
  struct Beside {
    std::unique_ptr<Order> order;
    std::set<std::string> outside;  // in the population but not in this draw
    std::set<std::string> leaving;  // since it began; some may have returned
    std::optional<std::vector<int64_t>> absent;
  };

  void BeginOrder();
  std::vector<CohortDraw::Known> KnownRanks() const;
  // Ranks among all names of the names outside the current draw, ascending.
  std::vector<int64_t> Outside() const;
  const std::vector<int64_t>& Absent();
  std::vector<int64_t> Before(std::vector<int64_t> ranks) const;
  std::vector<std::string> Take(int64_t count, Order& order, const std::vector<int64_t>& absent,
                                const std::set<std::string>& leaving,
                                const std::function<bool(const std::string& client_id)>& pass_over) const;

  uint64_t seed_;
  std::shared_ptr<const Selector> selector_;
  int64_t wanted_;
  std::shared_ptr<const privacy::NoiseKey> key_;
  std::optional<PoissonDraw> sample_;  // of the draw, if its selector has a rate
  std::map<std::string, Participation> participations_;
  std::shared_ptr<Population> names_;       // includes names that have left: a population keeps all
  std::set<std::string> gone_;              // before the draw
  std::set<std::string> leaving_;           // since it began; some may have returned
  std::map<std::string, DrawAt> late_;      // may not be drawn yet
  std::map<std::string, std::string> via_;  // of members that are reached through an aggregator
  DrawAt draw_;
  std::unique_ptr<Order> order_;  // null: the draw has not begun
  // For each name not eligible in the draw: the number of eligible ones before it. Nullopt: computed at the next use.
  std::optional<std::vector<int64_t>> absent_;
  std::optional<Beside> beside_;
};

}  // namespace rivulet
