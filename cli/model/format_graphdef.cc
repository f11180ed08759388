// GraphDef: the whole graph with its variables, as for a scenario's model.graph; and frozen graphs, whose weights
// become variables again.
#include "cli/command.h"
#include "cli/model/format.h"
#include "engine/base/file_system.h"
#include "engine/base/join.h"
#include "engine/base/json.h"
#include "engine/base/table.h"
#include "engine/graphdef/graph_def.h"
#include "engine/io/atomic_file.h"
#include "engine/io/safetensors.h"
#include "engine/models/tensorflow_form.h"
#include "engine/models/unfreeze.h"

namespace rivulet {
namespace {

Status WriteGraphDef(const ExportRequest& request) {
  if (request.out.ends_with(".pbtxt"))
    return UsageError("graphs are written as bytes; give --out the name of a .pb file");
  const ModelDef& model = request.source.model;
  RIVULET_ASSIGN_OR_RETURN(const TensorFlowGraph form, TensorFlowForm(model.graph));
  const std::string bytes = SerializeGraph(form.graph);
  const StatusOr<Graph> read = ParseGraph(bytes);
  if (!read.ok())
    return FailedPrecondition("the graph would be written but could not be read again, so nothing was written: {}",
                              Message(read.status()));
  RIVULET_RETURN_IF_ERROR(WriteFileAtomically(FileSystem::Default(), request.out, bytes));
  fmt::print("{}: {} nodes", request.out, form.graph.nodes().size());
  if (request.source.has_loss) {
    fmt::print("; inputs {}", model.input.placeholder);
    for (const ModelInput& input : model.more_inputs) fmt::print(", {}", input.placeholder);
    fmt::print(", {}; loss {}", model.label.placeholder, model.eval_loss);
    for (const auto& [name, tensor] : model.metrics) fmt::print("; {} {}", name, tensor);
  }
  if (!form.foreign.empty()) fmt::print("; ops that TensorFlow lacks: {}", Join(form.foreign, ", "));
  fmt::print("\n");
  return absl::OkStatus();
}

// A frozen graph contains the weights, so it may have the largest size of a protobuf message.
const GraphImport kFrozen = {.limits = {.bytes = (size_t{1} << 31) - 1}, .roots = {}};

// Writes FOLDER/graph.pb with variables, and FOLDER/model.safetensors with their values.
Status ReadGraphDef(const ImportRequest& request) {
  if (!request.shapes.empty()) return UsageError("a GraphDef has the shapes of its inputs; leave --shape out");
  if (!request.values.empty()) return UsageError("--value is for ONNX models; leave it out");
  FileSystem& files = FileSystem::Default();
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, files.ReadAll(request.file));
  const StatusOr<Graph> frozen = request.file.ends_with(".pbtxt") ? ParseGraphText(bytes) : ParseGraph(bytes, kFrozen);
  if (!frozen.ok()) return Annotate(frozen.status(), request.file);
  RIVULET_ASSIGN_OR_RETURN(const UnfrozenGraph unfrozen, Unfreeze(*frozen));
  if (unfrozen.variables.empty())
    return InvalidArgument(
        "{} has no constants in the places of weights, so there is nothing to import; model.graph takes the file "
        "unchanged",
        request.file);
  std::vector<SafetensorsEntry> entries;
  int64_t parameters = 0;
  for (const std::string& name : unfrozen.variables) {
    const Tensor& value = frozen->Find(name)->attr<Tensor>("value");
    entries.push_back({name, value.dtype(), value.shape(), {value.data(), value.bytes()}});
    parameters += value.elements();
  }
  RIVULET_ASSIGN_OR_RETURN(const std::string weights, SerializeSafetensors(entries, {{"format", "rivulet"}}));
  const std::string graph_path = JoinPath(request.out, "graph.pb"),
                    weights_path = JoinPath(request.out, "model.safetensors");
  const std::string graph = SerializeGraph(unfrozen.graph);
  const NamedBytes both[] = {{"graph.pb", graph}, {"model.safetensors", weights}};
  RIVULET_RETURN_IF_ERROR(WriteFolderAtomically(files, request.out, both));
  const Fields fields = {{"graph", graph_path},
                         {"weights", weights_path},
                         {"nodes", static_cast<int64_t>(unfrozen.graph.nodes().size())},
                         {"variables", static_cast<int64_t>(unfrozen.variables.size())},
                         {"parameters", parameters}};
  Table roles({{.name = "tensor"}, {.name = "role"}, {.name = "why"}});
  for (const FrozenConstant& constant : unfrozen.constants) roles.Add({constant.name, constant.role, constant.why});
  if (request.json) {
    Json object = ToJson(fields);
    object["tensors"] = roles.Rows();
    fmt::print("{}\n", object.Dump());
    return absl::OkStatus();
  }
  fmt::print("{}\n{}", FieldLines(fields), roles.Text());
  return absl::OkStatus();
}

const RegisterModelFormat kGraphDef({.name = "graphdef",
                                     .endings = {".pb", ".pbtxt"},
                                     .doc = "the whole graph, with loss and first values of the variables",
                                     .write = WriteGraphDef,
                                     .read = ReadGraphDef});

}  // namespace
}  // namespace rivulet
