// GraphDef: the whole graph with its variables, as model.graph in a scenario takes it.
#include "cli/command.h"
#include "cli/model_format.h"
#include "engine/base/file_system.h"
#include "engine/graph/graph_def.h"

namespace rivulet {
namespace {

Status Write(const ExportRequest& request) {
  const ModelDef& model = request.source.model;
  RIVULET_RETURN_IF_ERROR(WriteFileAtomically(FileSystem::Default(), request.out, SerializeGraph(model.graph)));
  fmt::print("{}: {} nodes", request.out, model.graph.nodes().size());
  if (request.source.has_loss) {
    fmt::print("; inputs {}, {}; loss {}", model.input.placeholder, model.label.placeholder, model.eval_loss);
    for (const auto& [name, tensor] : model.metrics) fmt::print("; {} {}", name, tensor);
  }
  fmt::print("\n");
  return absl::OkStatus();
}

const RegisterModelFormat kGraphDef({.name = "graphdef",
                                     .endings = {".pb"},
                                     .doc = "the whole graph, with loss and first values of the variables",
                                     .write = Write});

}  // namespace
}  // namespace rivulet
