#include "federated/algorithms/algorithm_library.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "engine/base/mutex.h"
#include "engine/base/user_library.h"
#include "federated/settings/registered_piece.h"

namespace rivulet {
namespace {

using Pieces = std::vector<internal::CollectedPiece>;

std::string Described(const internal::CollectedPiece& piece) { return fmt::format("{} '{}'", piece.kind, piece.name); }

Status CheckAgainstRegistries(const Pieces& pieces, const std::string& path) {
  if (pieces.empty()) {
    return InvalidArgument("{} registers nothing; one of its files needs RIVULET_ALGORITHM(…) or another registration",
                           path);
  }
  std::set<std::pair<std::string, std::string>> seen;
  for (const internal::CollectedPiece& piece : pieces) {
    if (!IsRegisteredPiece(piece.kind, piece.name) && seen.emplace(piece.kind, piece.name).second) continue;
    return AlreadyExists("{}: the {} is there already; give it another name", path, Described(piece));
  }
  return absl::OkStatus();
}

}  // namespace

// A library is loaded completely or not at all: missing pieces of an algorithm would be noticed only during a run.
StatusOr<AlgorithmLibrary> LoadAlgorithmLibrary(const std::string& path) {
  static Mutex mutex;
  static std::map<std::string, AlgorithmLibrary>& loaded = *new std::map<std::string, AlgorithmLibrary>;
  MutexLock lock(mutex);

  const LibraryInterface interface = {
      .holds = "algorithms",
      .macro = "RIVULET_ALGORITHM_LIBRARY",
      .marker = "rivulet_algorithm_library_abi_",
      .abi = RIVULET_ALGORITHM_ABI,
      .layout = {reinterpret_cast<const char*>(&kAlgorithmLayout), sizeof(kAlgorithmLayout)}};
  RIVULET_RETURN_IF_ERROR(CheckUserLibrary(path, interface));
  const std::string place = LoaderPath(path);
  if (const auto known = loaded.find(place); known != loaded.end()) return known->second;
  Pieces pieces;
  internal::CollectedPieces() = &pieces;
  StatusOr<std::string> description = OpenUserLibrary(path, interface);
  internal::CollectedPieces() = nullptr;
  RIVULET_RETURN_IF_ERROR(description.status());
  RIVULET_RETURN_IF_ERROR(CheckAgainstRegistries(pieces, path));

  AlgorithmLibrary library{path, *std::move(description), {}};
  for (internal::CollectedPiece& piece : pieces) {
    library.pieces.push_back(Described(piece));
    RegisterPiece(piece.kind, piece.name, std::move(piece.enter));
  }
  std::ranges::sort(library.pieces);
  return loaded[place] = std::move(library);
}

}  // namespace rivulet
