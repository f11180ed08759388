// Selection of the clients that train: the order in which members of a run are asked. Each selector is one registered
// file with its table of settings.
//
//   class RoundRobin final : public Selector { … };
//   RIVULET_SELECTOR(round_robin_registration, "round_robin", "…", {}, CreateRoundRobin);
//
// An order is a pure function of a draw and of the reports of earlier versions' clients. It never depends on a clock
// (unless the selector uses measured durations), on the connected clients, or on the order of arrivals. So a restart
// draws the same cohort, and deployed and simulated runs draw the same. The clients that measure a version are drawn
// uniformly with every selector.
//
// Lookups are thread-safe once main has started.
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

// History of a client whose updates are in versions.
struct Participation {
  int64_t version = 0;   // the version with its newest update
  int64_t versions = 0;  // number of versions with one of its updates
  int64_t examples = 0;  // of its newest update
  double loss = 0;       // training loss of its newest update
  // Duration of its newest task: planned, in a simulation (CoordinatorOptions::task_time), or measured; 0: unknown.
  double duration = 0;
  bool operator==(const Participation&) const = default;
};

// Input of one selection: ranks 0 .. members - 1 are in byte order of the names.
struct CohortDraw {
  uint64_t seed = 1;
  int64_t round = 1, attempt = 1;  // the round to train, or the round whose version is measured
  TaskKind kind = TaskKind::kTrain;
  int64_t members = 0;
  int64_t wanted = 1;  // clients asked at first; later ones in the order replace those that drop out
  // Clients that have taken part, by rank; empty if the selector does not use it.
  struct Known {
    int64_t rank = 0;
    Participation participation;
  };
  std::span<const Known> known = {};

  // Independent random streams of this draw; number 0 is for the uniform order.
  Draws Stream(uint32_t number) const;
};

// A sequence of distinct ranks. Not thread-safe.
class Order {
 public:
  virtual ~Order() = default;
  // nullopt: the order is exhausted.
  std::optional<int64_t> Next();
  int64_t given() const { return given_; }

 private:
  virtual std::optional<int64_t> Take() = 0;
  int64_t given_ = 0;
};

// A permutation in which every order is equally likely (McMahan et al. 2017, algorithm 1: "random set of m clients"):
// the first k ranks are a cohort of k without replacement. O(k).
LazyPermutation UniformPermutation(const CohortDraw& draw);
std::unique_ptr<Order> UniformOrder(const CohortDraw& draw);
// `first`, followed by all others in the uniform order.
std::unique_ptr<Order> OrderBeginning(const CohortDraw& draw, std::vector<int64_t> first);

// Immutable, thread-safe.
class Selector {
 public:
  virtual ~Selector() = default;
  // NOT_FOUND names the nearest selector; INVALID_ARGUMENT as Settings::Read.
  static StatusOr<std::unique_ptr<const Selector>> Create(const PieceSpec& piece);

  // Returns true if it needs CohortDraw::known. Reports are known only after their version is made, so such a selector
  // requires rounds whose cohort is drawn at once.
  virtual bool remembers() const { return true; }
  // Below 1: each member is in a draw with this probability, independently of all others (poisson_draw.h), and is never
  // replaced by another. OrderOf then orders those members.
  virtual double rate() const { return 1; }
  // The order for `draw`, whose `known` needs to live only during this call.
  virtual std::unique_ptr<Order> OrderOf(const CohortDraw& draw) const = 0;
};

using SelectorFactory = std::unique_ptr<const Selector> (*)(const Settings& settings);
// `doc`: description and source, for the reference. Also registers the table ("selection", name). CHECK fails if two
// have one name.
struct SelectorRegistration {
  SelectorRegistration(const char* name, const char* doc, std::vector<Setting> settings, SelectorFactory factory);
};
#define RIVULET_SELECTOR(variable, ...) \
  [[maybe_unused]] static const ::rivulet::SelectorRegistration variable(__VA_ARGS__)

// Every selector with its options, as Markdown: the part between the markers in docs/reference/selection.md.
std::string SelectionReference();

}  // namespace rivulet
