// A library of algorithms that ends the process, with status 0: once it is loaded (RIVULET_EXIT_AT_LOADING), or when
// its algorithm is asked for.
#include <cstdlib>

#include "federated/algorithms/algorithm_library.h"

RIVULET_ALGORITHM_LIBRARY("Leaves.");

namespace rivulet {
namespace {

[[maybe_unused]] const bool loaded = [] {
  if (std::getenv("RIVULET_EXIT_AT_LOADING") != nullptr) std::exit(0);
  return true;
}();

RIVULET_ALGORITHM(
    leaving_algorithm, "leaving", "none: a fault", "Ends the process.", {},
    [](const AlgorithmContext&) -> StatusOr<Composition> { std::exit(0); }, "none");

}  // namespace
}  // namespace rivulet
