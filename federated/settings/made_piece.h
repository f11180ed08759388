// A piece that its factory has made. The factory may be a library's (federated/algorithms/algorithm_library.h), and may
// give nothing.
#pragma once

#include <memory>
#include <string_view>

#include "engine/base/status.h"

namespace rivulet {

// `made` as it is. INTERNAL: it is a null pointer.
template <typename Piece>
StatusOr<std::unique_ptr<const Piece>> MadePiece(std::string_view kind, std::string_view name,
                                                 StatusOr<std::unique_ptr<const Piece>> made) {
  if (made.ok() && *made == nullptr)
    return Internal("the factory of {} '{}' gave none; correct the library that registers it", kind, name);
  return made;
}

}  // namespace rivulet
