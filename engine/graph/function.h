// Functions: subgraphs with arguments and results that If, While and calls run. A function is immutable and shared by
// every graph that refers to it.
//
//   Graph body;
//   Scope scope(body);
//   Node* x = scope.AddNode("_Arg", {}, {{"T", DType::kFloat32}, {"index", int64_t{0}}}, "x");
//   Output y = scope.Op("Square", {x->output()});
//   RIVULET_ASSIGN_OR_RETURN(auto square, Function::Create("square", std::move(body), {y}));
//   RIVULET_RETURN_IF_ERROR(graph.AddFunction(square));
//
// A body contains the functions that it calls (Graph::functions), so a function can call only functions created before
// it. Recursion is impossible.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

struct Function {
  std::string name;
  std::shared_ptr<const Graph> body;
  std::vector<Node*> arguments;           // "_Arg" nodes of the body, by their attribute "index"
  std::vector<std::string> result_names;  // one per result
  std::vector<Output> results;            // tensors of the body; may be arguments
  std::vector<Node*> control_results;     // nodes that run for their side effects, even if no result needs them

  bool noinline = false;  // calls are not inlined (the attribute "_noinline")

  // Arguments are the body's "_Arg" nodes. `result_names`, if given, name the results in the file format; else
  // "result_0", "result_1", …. INVALID_ARGUMENT: the arguments' indices are not 0, 1, 2, …, each once; a result or
  // control result does not belong to the body; the number of names is not that of results.
  static StatusOr<std::shared_ptr<const Function>> Create(std::string name, Graph body, std::vector<Output> results,
                                                          std::vector<Node*> control_results = {},
                                                          std::vector<std::string> result_names = {},
                                                          bool noinline = false);

  DType argument_dtype(size_t i) const { return arguments[i]->outputs()[0].dtype; }
  DType result_dtype(size_t i) const { return results[i].dtype(); }
};

}  // namespace rivulet
