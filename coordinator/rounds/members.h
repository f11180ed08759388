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
  // A draw, or the first one that a name may be in.
  struct DrawAt {
    int64_t round = 1, attempt = 1;
    auto operator<=>(const DrawAt&) const = default;
  };

  // Of `population`: all that are in it from the start, and those that it takes later. Null: whoever comes.
  // Cohorts that train are drawn by `selector`, `wanted` at first (CohortDraw::wanted); null: uniformly.
  // `key`: RunRules::cohort_key.
  explicit Members(uint64_t seed, std::shared_ptr<Population> population = nullptr,
                   std::shared_ptr<const Selector> selector = nullptr, int64_t wanted = 1,
                   std::shared_ptr<const privacy::NoiseKey> key = nullptr);
  // A name that is a member already stays as it is. One that the population does not take is no member.
  // Whoever comes when the draw has begun is of a later one, whatever `from` says.
  void Add(const std::string& client_id, DrawAt from, const std::string& via);
  // Whoever leaves when the draw has begun is passed over in it.
  void Remove(const std::string& client_id);
  bool Knows(const std::string& client_id) const;
  // Whether Add would take it after `others` more names: see Population::MayInsert.
  Status MayJoin(const std::string& client_id, int64_t others) const { return names_->MayInsert(client_id, others); }
  int64_t size() const;
  bool open() const { return names_->open(); }                 // to whoever comes
  const std::string& via(const std::string& client_id) const;  // "" for none
  void SetVia(const std::string& client_id, const std::string& via);

  // What the client's newest update in a version says of it, where the selector remembers: of draws that begin from now
  // on. A name that is no member counts once it is one.
  void Remember(const std::string& client_id, const Participation& participation);
  bool remembers() const { return selector_ != nullptr && selector_->remembers(); }
  const std::map<std::string, Participation>& participations() const { return participations_; }

  // All draws from now on are this one or later ones.
  void BeginDraw(DrawAt draw);
  // Who may be in this draw.
  int64_t eligible() const;
  // The next `count` in the order of this draw, fewer where fewer are left: without replacement, those passed over of
  // whom `pass_over` says so. Each name is judged once a draw, when its turn comes, and stays judged: whoever comes
  // back later does not change who is in. The order is a function of the seed, the draw, the set of the eligible
  // when it began, and what is remembered. O(count · log size), and what joined too late, has left or is remembered.
  std::vector<std::string> Draw(int64_t count, const std::function<bool(const std::string& client_id)>& pass_over);

  // A second draw beside this one, uniform and with an order of its own: of those who could be in a draw that began
  // now. Who joins later is in none of it, who leaves is passed over, and neither draw sees what the other has given.
  void BeginBeside(TaskKind kind, DrawAt draw);
  std::vector<std::string> DrawBeside(int64_t count,
                                      const std::function<bool(const std::string& client_id)>& pass_over);
  void EndBeside() { beside_.reset(); }

  struct Member {
    std::string client_id;
    DrawAt from;  // the first draw that it may be in; where that is past, this one
    std::string via;
  };
  // What a snapshot needs. In byte order of their names: all members of an open population; of another, which need not
  // be told, those that may not be drawn yet.
  std::vector<Member> told() const;
  // Those of a population that is not open who left before the draw began: they are in it still.
  std::set<std::string> gone() const { return names_->open() ? std::set<std::string>() : gone_; }
  const std::set<std::string>& leaving() const { return leaving_; }  // since the draw began
  // With those passed over; -1: the draw has not begun.
  int64_t drawn() const { return order_ ? order_->given() : -1; }
  // As these functions told it, when BeginDraw was called and nobody was added.
  void Restore(const std::vector<Member>& members, const std::vector<std::string>& gone,
               const std::vector<std::string>& leaving, int64_t drawn);
  // The same of the draw beside, which is restored afterwards. Of an open population only those are told who are in the
  // restored one.
  std::set<std::string> outside_beside() const;
  const std::set<std::string>& leaving_beside() const { return beside_->leaving; }
  int64_t drawn_beside() const { return beside_ ? beside_->order->given() : -1; }
  void RestoreBeside(TaskKind kind, DrawAt draw, const std::vector<std::string>& outside,
                     const std::vector<std::string>& leaving, int64_t drawn);

 private:
  struct Beside {
    std::unique_ptr<Order> order;
    std::set<std::string> outside;  // are in the population and not in this draw
    std::set<std::string> leaving;  // since it began; some of them may have come back
    std::optional<std::vector<int64_t>> absent;
  };

  void BeginOrder();
  std::vector<CohortDraw::Known> KnownRanks() const;
  // Ranks among all names of those who are in no order now, ascending.
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
  std::optional<PoissonDraw> sample_;  // of the draw, where its selector has a rate
  std::map<std::string, Participation> participations_;
  std::shared_ptr<Population> names_;       // with those that have left: a population forgets nobody
  std::set<std::string> gone_;              // before the draw
  std::set<std::string> leaving_;           // since it began; some of them may have come back
  std::map<std::string, DrawAt> late_;      // may not be drawn yet
  std::map<std::string, std::string> via_;  // of those who are reached through an aggregator
  DrawAt draw_;
  std::unique_ptr<Order> order_;  // null: the draw has not begun
  // For each name that may not be in the draw, how many eligible ones stand before it; while nobody joins or leaves.
  std::optional<std::vector<int64_t>> absent_;
  std::optional<Beside> beside_;
};

}  // namespace rivulet
