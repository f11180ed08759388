// Check of a piece that its factory returned. A library's factory (federated/algorithms/algorithm_library.h) may return
// null.
#pragma once

#include <memory>
#include <string_view>

#include "engine/base/status.h"

namespace rivulet {

// Returns `made`. INTERNAL: it is a null pointer.
template <typename Piece>
StatusOr<std::unique_ptr<const Piece>> MadePiece(std::string_view kind, std::string_view name,
                                                 StatusOr<std::unique_ptr<const Piece>> made) {
  if (made.ok() && *made == nullptr)
    return Internal("the factory of {} '{}' gave none; correct the library that registers it", kind, name);
  return made;
}

}  // namespace rivulet
