// Algorithm libraries: shared libraries, built against the installed headers, that register algorithms, server
// optimisers, selectors and aggregation rules. They use RIVULET_ALGORITHM, RIVULET_SERVER_OPTIMIZER, RIVULET_SELECTOR
// and RIVULET_UPDATES_RULE. One file of such a library contains
//
//   #include "federated/algorithms/algorithm_library.h"
//   RIVULET_ALGORITHM_LIBRARY("Averages of our own.");
//
// CMake links it only against headers, Rivulet::headers; it uses the symbols of the program that loads it. `rivulet …
// --algorithm-library FILE.so` loads it, on every command. Clients do not need it: the plan describes their work. An
// aggregator or worker needs it if it provides the aggregation rule.
//
// A library is code and as trusted as the program: only the user may name one, never a file, a plan or a peer.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "federated/algorithms/algorithm.h"
#include "federated/server_optimizers/server_optimizer.h"

// Increase it for every change in compiled headers that libraries depend on and that the sizes below do not show: the
// order of virtual functions, the meaning of a field.
#define RIVULET_ALGORITHM_ABI 1

#define RIVULET_ALGORITHM_LIBRARY(description) RIVULET_ALGORITHM_LIBRARY_IMPL_(description, RIVULET_ALGORITHM_ABI)
#define RIVULET_ALGORITHM_LIBRARY_IMPL_(description, abi) RIVULET_ALGORITHM_LIBRARY_IMPL2_(description, abi)
#define RIVULET_ALGORITHM_LIBRARY_IMPL2_(description, abi)                                                             \
  extern "C" __attribute__((visibility("default"))) const char rivulet_algorithm_library_abi_##abi[];                  \
  extern "C" const char rivulet_algorithm_library_abi_##abi[] = description;                                           \
  extern "C" __attribute__((visibility("default"))) const ::rivulet::AlgorithmLayout rivulet_algorithm_library_layout; \
  extern "C" const ::rivulet::AlgorithmLayout rivulet_algorithm_library_layout = ::rivulet::kAlgorithmLayout

namespace rivulet {

// Sizes of structures that both a library and its program compile. A scenario grows with every key: a library built
// with other headers is refused and must be rebuilt.
struct AlgorithmLayout {
  char name[16] = {'r', 'i', 'v', 'u', 'l', 'e', 't', ' ', 'p', 'i', 'e', 'c', 'e', 's', ':', '\0'};
  std::array<uint32_t, 8> sizes = {sizeof(Scenario),  sizeof(Algorithm),       sizeof(Composition), sizeof(PassBuilder),
                                   sizeof(FlatScope), sizeof(AggregationSpec), sizeof(Setting),     sizeof(ServerStep)};
};
inline constexpr AlgorithmLayout kAlgorithmLayout;

struct AlgorithmLibrary {
  std::string path;
  std::string description;
  std::vector<std::string> pieces;  // registered by it, such as "algorithm 'damped'"
};

// Loads one library and registers its pieces: all of them or, on an error, none. Call before scenarios are read: the
// registries are not locked. Loading a file again changes nothing and returns the same result.
// NOT_FOUND: no such file. INVALID_ARGUMENT: not a shared library, no RIVULET_ALGORITHM_LIBRARY, no pieces, or symbols
// that the program lacks. FAILED_PRECONDITION: built for another RIVULET_ALGORITHM_ABI or against other headers; none
// of its code has run. ALREADY_EXISTS: a piece exists already.
StatusOr<AlgorithmLibrary> LoadAlgorithmLibrary(const std::string& path);

}  // namespace rivulet
