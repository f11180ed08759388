// Selection of the clients that train: the order in which members of a run are asked. One registered file a selector,
// with its table of settings.
//
//   class RoundRobin final : public Selector { … };
//   RIVULET_SELECTOR(round_robin_registration, "round_robin", "…", {}, CreateRoundRobin);
//
// An order is a pure function of a draw and of the reports of earlier versions' clients. It never depends on a clock
// (unless the selector uses measured durations), on the connected clients, or on the order of arrivals. So a restart
// draws the same cohort, and a deployed run draws that of a simulated one. The clients that measure a version are drawn
// uniformly under every selector.
//
// Reading the registry is thread-safe once main has begun.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/draws.h"
#include "engine/base/setting.h"
#include "engine/base/status.h"
#include "federated/random/lazy_permutation.h"
#include "federated/settings/piece.h"
#include "federated/tasks/task.h"

namespace rivulet {

// What is known of a client whose updates are in versions.
struct Participation {
  int64_t version = 0;   // that its newest update is in
  int64_t versions = 0;  // how many have one of its updates
  int64_t examples = 0;  // of its newest
  double loss = 0;       // that it trained with then
  // How long that took: planned, of a simulation (CoordinatorOptions::task_time), or else measured; 0: nobody knows.
  double duration = 0;
  bool operator==(const Participation&) const = default;
};

// One draw, of ranks 0 .. members - 1 in byte order of the names.
struct CohortDraw {
  uint64_t seed = 1;
  int64_t round = 1, attempt = 1;  // the round that is trained, or whose version is measured
  TaskKind kind = TaskKind::kTrain;
  int64_t members = 0;
  int64_t wanted = 1;  // how many are asked at first; who comes after them in the order takes the place of one
  // Those who have taken part, by rank; empty where the selector does not remember.
  struct Known {
    int64_t rank = 0;
    Participation participation;
  };
  std::span<const Known> known = {};

  // Random numbers of this draw and of nobody else, as many streams as are wanted; 0 is the uniform order's.
  Draws Stream(uint32_t number) const;
};

// Ranks one after the other, each once. Not thread-safe.
class Order {
 public:
  virtual ~Order() = default;
  // Nullopt: all were given.
  std::optional<int64_t> Next();
  int64_t given() const { return given_; }

 private:
  virtual std::optional<int64_t> Take() = 0;
  int64_t given_ = 0;
};

// Every order equally likely (McMahan et al. 2017, algorithm 1: "random set of m clients"): the first k ranks are a
// cohort of k without replacement. O(k).
LazyPermutation UniformPermutation(const CohortDraw& draw);
std::unique_ptr<Order> UniformOrder(const CohortDraw& draw);
// `first`, and then all others in the uniform order.
std::unique_ptr<Order> OrderBeginning(const CohortDraw& draw, std::vector<int64_t> first);

// Immutable, thread-safe.
class Selector {
 public:
  virtual ~Selector() = default;
  // NOT_FOUND names the nearest; INVALID_ARGUMENT as Settings::Read.
  static StatusOr<std::unique_ptr<const Selector>> Create(const PieceSpec& piece);

  // Whether it wants CohortDraw::known. What a version's clients said is known when the version is there, so such a
  // selector goes with rounds whose cohort is drawn at once.
  virtual bool remembers() const { return true; }
  // Below 1: each member is in a draw with this probability, independently of all others (poisson_draw.h), and nobody
  // takes another's place. The order is then of those who are.
  virtual double rate() const { return 1; }
  // The ranks of `draw`, whose `known` must live as long as this call alone.
  virtual std::unique_ptr<Order> OrderOf(const CohortDraw& draw) const = 0;
};

using SelectorFactory = std::unique_ptr<const Selector> (*)(const Settings& settings);
// `doc`: what it does and whose it is, for the reference. Registers the table ("selection", name) too. A check fails
// where two have one name.
struct SelectorRegistration {
  SelectorRegistration(const char* name, const char* doc, std::vector<Setting> settings, SelectorFactory factory);
};
#define RIVULET_SELECTOR(variable, ...) \
  [[maybe_unused]] static const ::rivulet::SelectorRegistration variable(__VA_ARGS__)

// Every selector with its options, as Markdown: what docs/reference/selection.md holds between its markers.
std::string SelectionReference();

}  // namespace rivulet
