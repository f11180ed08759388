// Conversion of a GraphDef's function library (FunctionDef) to graphs, and back. For files that already include the
// generated headers.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/function.h"
#include "engine/graphdef/graph_def.h"
#include "proto/graph/graph.pb.h"

namespace rivulet {

// A function extracted from a library: its body in the form of a graph's nodes (inputs "node:2"), with arguments as
// nodes "_Arg".
struct LibraryFunction {
  std::string name;
  proto::GraphDef body;
  std::vector<std::string> results;       // tensors of the body, "node:2"
  std::vector<std::string> result_names;  // names in the signature
  std::vector<std::string> control_results;
  std::vector<std::string> calls;  // functions named by the body
  bool noinline = false;
};

// Extracts from `graph` the functions that its nodes call, by name, by attribute or through other functions; others are
// dropped. Callees come first. Nodes whose op is a function's name become calls. Each error is one sentence.
// INVALID_ARGUMENT: two functions of one name, a recursive function (with the path), or an undefined input or result in
// a body. NOT_FOUND: a missing function. UNIMPLEMENTED: a polymorphic function, or one that makes a variable's handle.
// RESOURCE_EXHAUSTED: more nodes in all bodies, more nodes with every call counted, or deeper calls than `limits`
// allow.
StatusOr<std::vector<LibraryFunction>> TakeLibrary(proto::GraphDef& graph, const GraphLimits& limits);

void ToProto(const Function& function, proto::FunctionDef* out);

}  // namespace rivulet
