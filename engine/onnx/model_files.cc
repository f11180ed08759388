#include "engine/onnx/model_files.h"

#include "engine/base/file_system.h"
#include "engine/base/join.h"
#include "engine/graphdef/graph_def.h"
#include "engine/io/atomic_file.h"
#include "engine/io/safetensors.h"

namespace rivulet::onnx {

StatusOr<std::string> WeightsToSafetensors(const OnnxModel& model) {
  std::map<std::string, std::string> metadata = {{"format", "rivulet.onnx"}};
  std::vector<SafetensorsEntry> entries;
  for (const OnnxValue& input : model.inputs) metadata["onnx.input." + input.name] = input.tensor;
  for (const OnnxValue& output : model.outputs) metadata["onnx.output." + output.name] = output.tensor;
  for (const OnnxWeight& weight : model.weights) {
    metadata["onnx.weight." + weight.name] = weight.variable;
    if (!weight.perm.empty()) metadata["onnx.perm." + weight.name] = Join(weight.perm, ",");
    entries.push_back(
        {weight.variable, weight.value.dtype(), weight.value.shape(), {weight.value.data(), weight.value.bytes()}});
  }
  return SerializeSafetensors(entries, metadata);
}

Status WriteModelFiles(const OnnxModel& model, const std::string& folder) {
  FileSystem& files = FileSystem::Default();
  RIVULET_ASSIGN_OR_RETURN(const std::string weights, WeightsToSafetensors(model));
  const std::string graph = SerializeGraph(model.graph);
  const NamedBytes both[] = {{"graph.pb", graph}, {"model.safetensors", weights}};
  return WriteFolderAtomically(files, folder, both);
}

}  // namespace rivulet::onnx
