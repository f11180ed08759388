#include "federated/settings/registered_piece.h"

#include <set>
#include <utility>

#include "engine/base/check.h"

namespace rivulet {
namespace {

// By kind and name. Created at first use and never destroyed: registrations run before main in an unspecified
// order.
std::set<std::pair<std::string, std::string>>& Pieces() {
  static auto* const pieces = new std::set<std::pair<std::string, std::string>>;
  return *pieces;
}

}  // namespace

std::vector<internal::CollectedPiece>*& internal::CollectedPieces() {
  thread_local std::vector<CollectedPiece>* collected = nullptr;
  return collected;
}

void RegisterPiece(std::string_view kind, std::string_view name, std::function<void()> enter) {
  if (std::vector<internal::CollectedPiece>* const collected = internal::CollectedPieces()) {
    collected->push_back({std::string(kind), std::string(name), std::move(enter)});
    return;
  }
  const bool added = Pieces().emplace(kind, name).second;
  RIVULET_CHECK(added, "two pieces are of the kind '{}' and named '{}'", kind, name);
  enter();
}

bool IsRegisteredPiece(std::string_view kind, std::string_view name) {
  return Pieces().contains({std::string(kind), std::string(name)});
}

}  // namespace rivulet
