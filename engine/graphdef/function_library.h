// Conversion of a GraphDef's function library (FunctionDef) to graphs, and back. For files that include the generated
// headers anyway.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/function.h"
#include "engine/graphdef/graph_def.h"
#include "proto/graph/graph.pb.h"

namespace rivulet {

// A function of a library, taken apart: its body in the form of a graph's nodes (inputs "node:2"), arguments as nodes
// "_Arg".
struct LibraryFunction {
  std::string name;
  proto::GraphDef body;
  std::vector<std::string> results;       // tensors of the body, "node:2"
  std::vector<std::string> result_names;  // as the signature names them
  std::vector<std::string> control_results;
  std::vector<std::string> calls;  // functions that the body names
  bool noinline = false;
};

// Takes out of `graph` the functions that its nodes call, by name, attribute or by way of others; those that nothing
// calls are dropped. Callees come first. Nodes whose op is a function's name become calls. Each error is one sentence:
// INVALID_ARGUMENT: two functions of one name, one that calls itself (the way is told), an input or result of a body
// that is none. NOT_FOUND: a function that is not there. UNIMPLEMENTED: a polymorphic function, one that makes a
// variable's handle. RESOURCE_EXHAUSTED: more nodes in all bodies, more nodes when every call is counted anew, or calls
// deeper in one another than `limits` allow.
StatusOr<std::vector<LibraryFunction>> TakeLibrary(proto::GraphDef& graph, const GraphLimits& limits);

void ToProto(const Function& function, proto::FunctionDef* out);

}  // namespace rivulet
