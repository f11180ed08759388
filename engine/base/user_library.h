// Opening of shared libraries with the user's code, after checks of the file that run none of that code. The loaders of
// each kind read the library's content (engine/program/op_library.h, federated/algorithms/algorithm_library.h).
//
// A library is code and as trusted as the program: only the user names one, never a file, a plan or a peer.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace rivulet {

// What a library says of itself by a macro: a string constant "<marker><abi>", its description. The number stands in
// the name, so that it is read from the file before the loader sees it: loading runs a library's initialisers, and
// those of another version would hand over structures of another layout before anybody could ask.
struct LibraryInterface {
  std::string_view holds;   // "ops"
  std::string_view macro;   // "RIVULET_OP_LIBRARY"
  std::string_view marker;  // "rivulet_op_library_abi_"
  int abi = 0;
  // Bytes that the library has as this program has them, after the first 16, by which they are found: the sizes of
  // structures that both see compiled in. "": none are compared.
  std::string_view layout = {};
};

// NOT_FOUND: no such file. INVALID_ARGUMENT: not a shared library, without the macro. FAILED_PRECONDITION: built for
// another version of the interface, or everybody on this machine may write the file.
Status CheckUserLibrary(const std::string& path, const LibraryInterface& interface);

// Where the loader looks for a path: its own folders only for a name without a slash, which is therefore given one.
std::string LoaderPath(const std::string& path);

// Opens a library that was checked, which runs its initialisers, and gives its description. It stays in memory, as what
// it has registered points into it. INVALID_ARGUMENT: it needs symbols that are not there, its initialisers throw, or
// it hides the macro's. Names are bound at once, so that a missing symbol is an error here and no crash later, and stay
// the library's own, so that two libraries may have functions of one name.
StatusOr<std::string> OpenUserLibrary(const std::string& path, const LibraryInterface& interface);

}  // namespace rivulet
