// Op libraries: shared libraries, built against the installed package, that register ops, gradients and kernels with
// RIVULET_OP and RIVULET_KERNEL. One file of such a library contains
//
//   #include "engine/program/op_library.h"
//   RIVULET_OP_LIBRARY("Activations of our own.");
//
// and CMake links it only against headers, Rivulet::headers. It uses the engine of the program that loads it, so that
// both share one registry. `rivulet … --op-library FILE.so` loads it, on every command.
//
// A library is code and as trusted as the program: only the user may name one, never a file, a plan or a peer.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"

// Increase it for every change in compiled headers that libraries depend on: the layout of types in op.h, graph.h,
// attr.h, tensor.h, gradients.h and kernel.h. tests/engine/program/op_abi_test.cc records the sizes for each number.
#define RIVULET_OP_ABI 1

#define RIVULET_OP_LIBRARY(description) RIVULET_OP_LIBRARY_IMPL_(description, RIVULET_OP_ABI)
#define RIVULET_OP_LIBRARY_IMPL_(description, abi) RIVULET_OP_LIBRARY_IMPL2_(description, abi)
// The name contains the number, so that it can be read from the file before any of its code runs.
#define RIVULET_OP_LIBRARY_IMPL2_(description, abi)                                                  \
  extern "C" __attribute__((visibility("default"), used)) const char rivulet_op_library_abi_##abi[]; \
  extern "C" const char rivulet_op_library_abi_##abi[] = description

namespace rivulet {

struct OpLibrary {
  std::string path;
  std::string description;
  std::vector<std::string> ops;      // registered ops, by name
  std::vector<std::string> kernels;  // "Hypot (CPU, float32)"
};

// Loads one library and registers its contents: all of them or, on an error, none. Call before graphs are built: the
// registries are not locked. Loading a file again changes nothing and returns the same result.
// NOT_FOUND: no such file. INVALID_ARGUMENT: not a shared library, no RIVULET_OP_LIBRARY, or symbols that the program
// lacks. FAILED_PRECONDITION: built for another RIVULET_OP_ABI; none of its code has run. ALREADY_EXISTS: an op or
// kernel exists already.
StatusOr<OpLibrary> LoadOpLibrary(const std::string& path);

}  // namespace rivulet
