// Weights under PyTorch's names and in PyTorch's layout, for load_state_dict.
#include <map>

#include "cli/command.h"
#include "cli/model/format.h"
#include "cli/model/pytorch_names.h"
#include "engine/base/file_system.h"
#include "engine/base/table.h"
#include "engine/graph/variable_name.h"
#include "engine/io/atomic_file.h"
#include "engine/io/safetensors.h"

namespace rivulet {
namespace {

Status WritePyTorch(const ExportRequest& request) {
  const Graph& graph = request.source.model.graph;
  std::map<std::string, Node*, std::less<>> handles;
  for (const auto& node : graph.nodes()) {
    if (node->type() == "VarHandleOp") handles.emplace(VariableName(*node), node.get());
  }
  RIVULET_ASSIGN_OR_RETURN(const NamedWeights weights, request.source.weights());
  NamedWeights theirs;
  for (const auto& [name, value] : weights) {
    if (request.source.weights_alone) {  // a module's own arrays, from rivulet.torch.params
      theirs.emplace_back(name, value);
      continue;
    }
    const auto handle = handles.find(name);
    if (handle == handles.end()) {
      return FailedPrecondition("the graph of {} has no variable '{}'", request.source.title, name);
    }
    RIVULET_ASSIGN_OR_RETURN(const PyTorchLayout layout, PyTorchLayoutOf(graph, handle->second, value));
    theirs.emplace_back(PyTorchName(name), Rearranged(value, layout));
  }
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, tensor] : theirs) {
    entries.push_back({name, tensor.dtype(), tensor.shape(), {tensor.data(), tensor.bytes()}});
  }
  // PyTorch's own tools look for "format".
  RIVULET_ASSIGN_OR_RETURN(const std::string header,
                           SafetensorsHeader(entries, {{"format", "pt"}, {"rivulet.layout", "pytorch"}}));
  RIVULET_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(FileSystem::Default(), request.out));
  RIVULET_RETURN_IF_ERROR(file->Append(header));
  for (const SafetensorsEntry& entry : entries) RIVULET_RETURN_IF_ERROR(file->Append(entry.data));
  RIVULET_RETURN_IF_ERROR(file->Commit());
  const Fields fields = {{"weights", request.out}, {"tensors", std::ssize(theirs)}};
  fmt::print("{}", request.json ? JsonObject(fields) + "\n" : FieldLines(fields));
  return absl::OkStatus();
}

const RegisterModelFormat kPyTorch({.name = "pytorch",
                                    .endings = {},
                                    .doc = "the weights as safetensors under PyTorch's names and in its layout",
                                    .container = "safetensors",
                                    .weights_alone = true,
                                    .write = WritePyTorch});

}  // namespace
}  // namespace rivulet
