// The members of a run: who may be drawn, and from when on. Pure, but for the seeded stream of a draw.
//
// A name that joins while an attempt is open may be drawn from the next one on. If it could be drawn at once, the
// cohort would depend on when it joined; and after a crash, on whether it had joined before the attempt is drawn again.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "federated/population/population.h"

namespace rivulet {

class Members {
 public:
  // A draw, or the first one that a name may be in.
  struct DrawAt {
    int64_t round = 1, attempt = 1;
    auto operator<=>(const DrawAt&) const = default;
  };

  Members();
  // A name that is a member already stays as it is. One that no population takes is no member: see Population::Insert.
  void Add(const std::string& client_id, DrawAt from, const std::string& via);
  void Remove(const std::string& client_id);
  bool Knows(const std::string& client_id) const;
  int64_t size() const;
  const std::string& via(const std::string& client_id) const;  // "" for none

  // All draws from now on are this one or later ones.
  void BeginDraw(DrawAt draw);
  // Who may be in the draw that was begun.
  int64_t eligible() const;
  // `count` of them, fewer where fewer are there, without replacement and in the order drawn: a function of the seed,
  // the draw, and the set of the eligible. O(count · log size), and what joined too late or has left.
  std::vector<std::string> Draw(uint64_t seed, int64_t count) const;

  // In byte order of their names, with the first draw that they may be in: where that is past, the draw that was begun.
  void ForEach(const std::function<void(const std::string& client_id, DrawAt from, const std::string& via)>& use) const;

 private:
  std::unique_ptr<Population> names_;  // with those that have left: a population forgets nobody
  std::set<std::string> gone_;
  std::map<std::string, DrawAt> late_;      // may not be drawn yet
  std::map<std::string, std::string> via_;  // of those who are reached through a tier
  DrawAt draw_;
};

}  // namespace rivulet
