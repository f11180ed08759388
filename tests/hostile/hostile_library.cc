// A library whose algorithm misbehaves at the point in RIVULET_HOSTILE_LIBRARY: when it is loaded, when a run is
// composed, or when a round ends.
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string_view>

#include "federated/algorithms/algorithm_library.h"

RIVULET_ALGORITHM_LIBRARY("Code that misbehaves.");

namespace rivulet {
namespace {

bool Misbehaves(std::string_view where) {
  const char* told = std::getenv("RIVULET_HOSTILE_LIBRARY");
  return told != nullptr && where == told;
}

[[noreturn]] void Throw() { throw std::runtime_error("thrown\x1b[31m by\na library"); }

struct AsItIsLoaded {
  AsItIsLoaded() {
    if (Misbehaves("load throws")) Throw();
    if (Misbehaves("load throws a number")) throw 7;
    if (Misbehaves("load exits")) std::exit(0);
  }
};
const AsItIsLoaded as_it_is_loaded;

class Hostile final : public ServerOptimizer {
 public:
  bool Step(const ServerStep& step) const override {
    if (Misbehaves("step throws")) Throw();
    if (Misbehaves("step throws a number")) throw 7;
    if (Misbehaves("step takes all memory")) step_memory_.resize(std::numeric_limits<size_t>::max() / 16);
    for (size_t i = 0; i < step.next.size(); ++i) {
      step.next[i] = Misbehaves("step gives NaN") ? std::numeric_limits<float>::quiet_NaN()
                                                  : static_cast<float>(step.params[i] + step.mean[i]);
    }
    return !Misbehaves("step gives up");
  }

 private:
  mutable std::vector<double> step_memory_;
};

RIVULET_SERVER_OPTIMIZER(hostile_optimizer, "hostile", {},
                         [](const Settings&) -> StatusOr<std::unique_ptr<const ServerOptimizer>> {
                           if (Misbehaves("factory throws")) Throw();
                           if (Misbehaves("factory gives nothing")) return std::unique_ptr<const ServerOptimizer>();
                           return std::make_unique<Hostile>();
                         });

RIVULET_ALGORITHM(
    hostile_algorithm, "hostile", "none: a test", "Federated averaging by code that misbehaves.", {},
    [](const AlgorithmContext& context) -> StatusOr<Composition> {
      if (Misbehaves("compose throws")) Throw();
      if (Misbehaves("compose throws a number")) throw 7;
      if (Misbehaves("compose refuses")) return InvalidArgument("no\x1b[31m\nreason");
      RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
      if (Misbehaves("compose names nothing")) {
        composition.server_optimizer = {"no such optimizer", {}};
      } else {
        composition.server_optimizer = {"hostile", {}};
      }
      return composition;
    },
    "w ← w + d");

}  // namespace
}  // namespace rivulet
