// Registrations of pieces: algorithms, server optimisers, selectors, rules and so on, each by its kind and name. Those
// of the program's files run before main. Those of a library under load (federated/algorithms/algorithm_library.h) are
// kept apart until all of it is known to fit.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace rivulet {

// Calls `enter`, which adds the piece to its registry, at once or when its library has been accepted. CHECK fails if
// two pieces of the program have one kind and name.
void RegisterPiece(std::string_view kind, std::string_view name, std::function<void()> enter);

bool IsRegisteredPiece(std::string_view kind, std::string_view name);

namespace internal {

struct CollectedPiece {
  std::string kind, name;
  std::function<void()> enter;
};
// For the calling thread; null, as almost always: pieces are registered at once.
std::vector<CollectedPiece>*& CollectedPieces();

}  // namespace internal
}  // namespace rivulet
